/** Compares the jobs that a step has asked for with those that it asks for when it is run again. */
import type { RunResult } from '../run.ts';
import type { ChildJob } from '../run-state.ts';
import { type Difference, type EqualPairs, firstDifference } from './difference.ts';
import type { RecordedCall } from './recorded-run.ts';

/** What one step differs in. */
export interface StepDifference extends Difference {
  readonly step: number;
  /** The kind of step, as it was recorded; `end` where the run had, or would have, ended. */
  readonly event: string;
  readonly job_id?: string;
  /** One sentence for people. */
  readonly text: string;
}

export interface ComparedStep {
  readonly step: number;
  /** The jobs of the step, without those that were not admitted. */
  readonly recorded: readonly RecordedCall[];
  /** The ids of jobs of the step that were not admitted: nothing is known of them but that they were asked for. */
  readonly refused: readonly string[];
  readonly asked: readonly ChildJob[];
  /** The model that the run asked for by this name, before a route or an alias was resolved. */
  readonly modelOf: (call: RecordedCall) => string | undefined;
  readonly equal: EqualPairs;
}

/** Undefined where the step asks for the same. */
export function stepDifference(compared: ComparedStep): StepDifference | undefined {
  const { step, recorded, refused, asked } = compared;
  const event = recorded[0]?.tags?.['event'] ?? asked[0]?.tags.event ?? 'end';
  const different = (found: Difference, text: string, jobId?: string): StepDifference => ({
    step,
    event,
    ...(jobId !== undefined && { job_id: jobId }),
    ...found,
    text: `step ${step} (${event}): ${text}`,
  });
  const known = new Map(recorded.map((call) => [call.job_id, call]));
  const calls = asked.filter(({ job_id: id }) => !refused.includes(id));
  const missing = recorded.find(({ job_id: id }) => !calls.some((job) => job.job_id === id));
  const added = calls.find(({ job_id: id }) => !known.has(id));
  // A call of a model and one of a tool have ids of different forms, so the kind of a step is compared with them.
  if (missing || added) {
    const found = { field: 'calls', recorded: callsText(recorded), replayed: callsText(calls) };
    return different(found, `it asked for ${found.recorded}, and asks for ${found.replayed} now`);
  }
  for (const job of calls) {
    const call = known.get(job.job_id) as RecordedCall;
    const recordedCall = comparable(call, compared.modelOf(call));
    const found = firstDifference(recordedCall, comparable(job, modelOf(job)), '', compared.equal);
    if (found) return different(found, differenceText(found, [call.payload, job['payload']]), call.job_id);
  }
  return undefined;
}

type Asked = Pick<RecordedCall, 'type' | 'tags' | 'payload'>;

const comparable = ({ type, tags, payload }: Asked | ChildJob, model: string | undefined): object => ({
  type,
  model,
  tags,
  payload,
});

const modelOf = (job: ChildJob): string | undefined => job['model'] as string | undefined;

function callsText(calls: readonly (RecordedCall | ChildJob)[]): string {
  if (calls.length === 0) return 'nothing';
  return calls.map((call) => callText(call.tags ?? {})).join(', ');
}

const callText = (tags: object): string => {
  const { event, tool } = tags as { readonly event?: string; readonly tool?: string };
  if (event === 'approval') return `approval of ${tool}`;
  return tool === undefined ? `the model (${event})` : `${tool}`;
};

const MESSAGE = /^payload\.messages\[(\d+)\]/;

/** `payloads`: as they were recorded, and as they would be now. */
function differenceText({ field, recorded, replayed }: Difference, payloads: readonly unknown[]): string {
  const [, at] = MESSAGE.exec(field) ?? [];
  const how = `was ${recorded}, is now ${replayed}`;
  if (at === undefined) return `${field} ${how}`;
  const role = payloads.map((payload) => roleAt(payload, Number(at))).find((each) => each !== undefined);
  return `message ${Number(at) + 1} (${role}) ${how}`;
}

function roleAt(payload: unknown, at: number): string | undefined {
  const { messages } = (payload ?? {}) as { readonly messages?: readonly { readonly role?: string }[] };
  return messages?.[at]?.role;
}

/** Where the results of the run and of its replay part. */
export function resultDifference(
  step: number,
  recorded: RunResult | undefined,
  replayed: RunResult | undefined,
): StepDifference | undefined {
  const found = firstDifference(recorded, replayed, 'result');
  if (!found) return undefined;
  const ends = recorded ? 'the run ended' : 'the run went on';
  const text =
    replayed && recorded
      ? differenceText(found, [])
      : `${ends} here, and would ${replayed ? 'end' : 'go on'} now`;
  return { step, event: 'end', ...found, text: `step ${step} (end): ${text}` };
}
