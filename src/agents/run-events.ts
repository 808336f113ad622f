/**
 * One stream of events for a run: its steps, what its model says as it says it, its tools, what it asks people, and its
 * end. The events of the jobs below are passed on as they come; nothing is kept.
 *
 * E1  The calls of a step are followed at once: what happens first is told first.
 * E2  A reader that resumes gets every event with an id once: also those of steps that ended while it was away.
 * E3  Events without an id (`queued`, `reset`, an approval that waits, `needs_decision`) say how things are, and may come again.
 * E4  What a run below does is told in events `below`, without ids; its end is the result of its call.
 * E5  A pause is told when it begins and when it ends, whatever the run waits for (pause-events.ts).
 */
import { merged } from '../kit/merged.ts';
import { DEFAULT_PARALLEL_TOOLS } from '../model/agent.ts';
import type { JobView } from '../model/http/jobs.ts';
import { isModelCall, RUN_TYPE } from '../model/run-jobs.ts';
import { isTerminal } from '../model/states.ts';
import { MAX_CHILDREN } from '../model/waiting.ts';
import type { JobEvent } from '../runtime/job-events.ts';
import {
  type Call,
  isNotFound,
  kept,
  modelEvents,
  type RunEvent,
  type RunSources,
  tagsOf,
  toolEvents,
} from './call-events.ts';
import { saidBy } from './ended-call.ts';
import { withPauses } from './pause-events.ts';
import { type KeptResult, RESULT_GONE, type RunResult, shownResult } from './run.ts';
import { callsId, FIRST_WORD, type RunPlace, stepOfJob, wordId } from './run-place.ts';

/** Without `after` the stream begins with the step that the run is in; one that has ended has its end alone. */
export const runEvents = (
  sources: RunSources,
  runId: string,
  after: RunPlace | undefined,
): AsyncGenerator<RunEvent> =>
  withPauses(sources, runId, after, (ofJob) => eventsOf(sources, runId, after, ofJob));

async function* eventsOf(
  sources: RunSources,
  runId: string,
  after: RunPlace | undefined,
  ofJob: AsyncGenerator<JobEvent>,
): AsyncGenerator<RunEvent> {
  /** The last step that was told; undefined until it is known where to begin. */
  let last = after ? after.step - 1 : lastStepOf(runId, await sources.read(runId));
  for await (const { type, data } of ofJob) {
    if (type === 'queued') yield { event: 'queued', data };
    else if (type === 'waiting') {
      const { jobs } = data as { readonly jobs: readonly string[] };
      const step = stepOfJob(runId, jobs[0]);
      // Without jobs the run pauses before it asks again.
      if (step === undefined) continue;
      for (let missed = (last ?? step - 1) + 1; missed < step; missed++)
        yield* stepEvents(sources, runId, missed, await jobsOf(sources, runId, missed), after);
      if (step > (last ?? 0)) yield* stepEvents(sources, runId, step, await calls(sources, jobs), after);
      last = step;
    } else if (type === 'end' || type === 'error') {
      for (let missed = (last ?? Number.POSITIVE_INFINITY) + 1; missed <= lastStepIn(runId, data); missed++)
        yield* stepEvents(sources, runId, missed, await jobsOf(sources, runId, missed), after);
      yield { id: 'end', ...endOf(type, data) };
    }
  }
}

/** The step before the one that the run is in; undefined where that is not known. */
function lastStepOf(runId: string, { state, wait }: JobView): number | undefined {
  if (isTerminal(state)) return undefined;
  if (!wait) return 0;
  const step = stepOfJob(runId, wait.jobs[0]);
  return step !== undefined && state === 'waiting' ? step - 1 : step;
}

/** The last step that the result of a run names; 0 for a run without a result. */
function lastStepIn(runId: string, data: unknown): number {
  const { result } = data as { result?: { steps?: readonly { job_id: string }[] } };
  return Math.max(0, ...(result?.steps ?? []).map(({ job_id: id }) => stepOfJob(runId, id) ?? 0));
}

/** The events of one step. `after` is where the reader was, which may be in this step. */
async function* stepEvents(
  sources: RunSources,
  runId: string,
  step: number,
  jobs: readonly Call[],
  after: RunPlace | undefined,
): AsyncGenerator<RunEvent> {
  const [first] = jobs;
  if (!first) return;
  const place = after?.step === step ? after : undefined;
  if (isModelCall(runId, first.id)) {
    if (!place) yield { id: wordId(step, FIRST_WORD), event: 'step', data: modelStep(step, first) };
    return yield* kept(modelEvents(sources, step, first, place?.event));
  }
  let told = place?.told ?? 0n;
  if (!place) yield { id: callsId(step, told), event: 'step', data: callStep(step, jobs) };
  const open = jobs.map((call) => ({ call, bit: bitOf(call) })).filter(({ bit }) => !(told & bit));
  yield* merged(
    open.map(({ call, bit }) =>
      kept(
        callEvents(sources, call, () => {
          told |= bit;
          return callsId(step, told);
        }),
      ),
    ),
  );
}

const callEvents = (sources: RunSources, call: Call, told: () => string): AsyncGenerator<RunEvent> =>
  call.job?.type === RUN_TYPE ? belowEvents(sources, call, told) : toolEvents(sources, call, told);

/** E4. The events of a run below one that is below this run come as they are. */
async function* belowEvents(sources: RunSources, call: Call, told: () => string): AsyncGenerator<RunEvent> {
  const { tool } = tagsOf(call);
  const about = { call_id: call.id, ...(tool !== undefined && { tool }) };
  for await (const { event, data } of runEvents(sources, call.id, undefined)) {
    if (event === 'below') yield { event, data };
    else if (event === 'end') {
      const { ok, text } = saidBy(data as RunResult);
      yield {
        event: 'tool_result',
        id: told(),
        data: { job_id: call.id, result: { ok, text }, ...about, ok },
      };
    } else if (event === 'error')
      yield { event: 'tool_result', id: told(), data: { ...(data as object), ...about, ok: false } };
    else yield { event: 'below', data: { run_id: call.id, event, data } };
  }
}

/** By the number of the call in its step: calls before it may have been refused, and have no job. */
const bitOf = ({ id }: Call): bigint => 1n << BigInt(id.slice(id.lastIndexOf('.') + 1));

function modelStep(step: number, call: Call): object {
  const { event = 'llm_call', model_role } = tagsOf(call);
  return { step, event, ...(model_role && { model_role }), jobs: [call.id] };
}

function callStep(step: number, jobs: readonly Call[]): object {
  const told = jobs.map((call) => {
    const { event = 'tool_call', tool } = tagsOf(call);
    return { call_id: call.id, event, ...(tool !== undefined && { tool }) };
  });
  // Calls of tools may stand beside requests to allow others; a checkpoint is a request alone.
  const [first] = jobs.map(tagsOf);
  const isCalls = first?.tool !== undefined && first.event !== 'branch';
  const event = isCalls ? 'tool_call' : (first?.event ?? 'tool_call');
  return { step, event, jobs: jobs.map(({ id }) => id), calls: told };
}

const calls = (sources: RunSources, ids: readonly string[]): Promise<Call[]> =>
  Promise.all(ids.map(async (id) => ({ id, job: await found(sources, id) })));

/** After so many calls without a job, no further one is looked for. */
const MOST_REFUSED = DEFAULT_PARALLEL_TOOLS;

/** The jobs of a step that the run does not wait for any more. */
async function jobsOf(sources: RunSources, runId: string, step: number): Promise<Call[]> {
  const id = `${runId}.${step}`;
  const model = await found(sources, id);
  if (model) return [{ id, job: model }];
  const tools: Call[] = [];
  for (let call = 0, refused = 0; call < MAX_CHILDREN && refused < MOST_REFUSED; call++) {
    const job = await found(sources, `${id}.${call}`);
    if (job) tools.push({ id: job.job_id, job });
    refused = job ? 0 : refused + 1;
  }
  return tools;
}

async function found({ read }: RunSources, id: string): Promise<JobView | undefined> {
  try {
    return await read(id);
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}

/** A run ends with its result, or with why it has none. */
function endOf(type: 'end' | 'error', data: unknown): Pick<RunEvent, 'event' | 'data'> {
  if (type === 'error') return { event: 'error', data };
  const { job_id: runId, result, ...rest } = data as { job_id: string; result?: KeptResult };
  if (!result) return { event: 'error', data: { job_id: runId, ...rest, ...RESULT_GONE } };
  return { event: 'end', data: { run_id: runId, ...shownResult(result) } };
}
