/** Compares a run with what its steps decide when they are run again, and names the first step that differs. */
import { resultOf } from '../run.ts';
import { resultDifference, type StepDifference, stepDifference } from './compare-step.ts';
import { type Decision, decisionsOf, jobsOf, type ReplayAgent } from './decisions.ts';
import type { EqualPairs } from './difference.ts';
import type { RecordedCall, RunRecords } from './recorded-run.ts';

export interface Replayed {
  /** Steps that ask for the same, until the end or the first difference. */
  readonly steps: number;
  /** The run has ended, and its end was compared. */
  readonly hasEnd: boolean;
  readonly difference?: StepDifference;
}

/** `turn` is awaited between two decisions: a long run is replayed in many turns of the event loop. */
export async function replayRun(
  records: RunRecords,
  by: ReplayAgent,
  turn: () => Promise<void> | void = () => undefined,
): Promise<Replayed> {
  const { result, record } = records.head;
  const trace = result?.trace_id ?? '';
  const equal: EqualPairs = new WeakMap();
  let steps = 0;
  let last: Decision | undefined;
  for await (const decision of decisionsOf(records, by)) {
    last = decision;
    const { advanced } = decision;
    if (advanced.is === 'ended') break;
    if (jobsOf(decision).length > 0) {
      const difference = await differenceOf(records, decision, equal);
      if (difference) return { steps, hasEnd: false, difference };
      steps++;
    }
    await turn();
  }
  if (!last) return { steps, hasEnd: false };
  const replayed = last.advanced.is === 'ended' ? resultOf(trace, last.advanced.run) : undefined;
  // The decision that has thrown is not recorded, nor would it throw again: nothing is compared with its end.
  if (!replayed && (record.hasDefect || !result)) return { steps, hasEnd: false };
  const wentOn = last.n < record.decisions - 1 ? await differenceOf(records, last, equal) : undefined;
  const difference = wentOn ?? resultDifference(last.from.step, result, replayed);
  return { steps, hasEnd: replayed !== undefined, ...(difference && { difference }) };
}

async function differenceOf(
  records: RunRecords,
  decision: Decision,
  equal: EqualPairs,
): Promise<StepDifference | undefined> {
  const { head } = records;
  const { refused } = decision;
  const asked = jobsOf(decision);
  const step = decision.from.step + 1;
  const recorded = decision.calls.filter((call) => call !== undefined);
  const others = await otherCalls(records, step, asked.length, recorded);
  return stepDifference({
    step,
    recorded: [...recorded, ...others],
    refused,
    asked,
    equal,
    modelOf: (call) => head.steps.find(({ job_id: id }) => id === call.job_id)?.model ?? call.model,
  });
}

/** The jobs of the step that were not asked for again: further calls of tools, or a step of the other kind. */
async function otherCalls(
  records: RunRecords,
  step: number,
  count: number,
  recorded: readonly RecordedCall[],
): Promise<readonly RecordedCall[]> {
  const model = `${records.head.run_id}.${step}`;
  if (recorded.some(({ job_id: id }) => id === model)) return [];
  const ids = recorded.length === 0 ? [model, `${model}.0`] : [`${model}.${count}`];
  return (await records.calls(ids)).filter((call) => call !== undefined);
}
