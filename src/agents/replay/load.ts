/** Reads the records of a run from the store of its brain. */
import { checker } from '../../kit/check.ts';
import { RunRequest } from '../../model/agent.ts';
import { OrchdError } from '../../model/errors.ts';
import { isModelCall, RUN_TYPE } from '../../model/run-jobs.ts';
import type { RecordedJob } from '../../runtime/recorded-job.ts';
import { runIn } from '../kept-run.ts';
import { type KeptResult, shownResult } from '../run.ts';
import { type ChatMessage, newRun, type StepNote } from '../run-state.ts';
import { recordOf } from './decision-input.ts';
import { takenState } from './fork.ts';
import type { RecordedCall, RecordedHead, RunRecords } from './recorded-run.ts';
import type { RunRecord } from './run-record.ts';

/** Throws NOT_FOUND for a job that there is not. */
export type ReadRecorded = (jobId: string) => Promise<RecordedJob>;

/** A fork of a fork of a fork …: each is read for the one before it. */
const MAX_FORKS = 32;

const checkRequest = checker(RunRequest);

/** Throws NOT_FOUND for a job that is no run, ILLEGAL_STATE for one that has not begun, and RUN_GONE. */
export async function loadRun(read: ReadRecorded, runId: string, depth = 0): Promise<RunRecords> {
  const { job, state, isGone } = await read(runId);
  if (job.type !== RUN_TYPE) throw new OrchdError('NOT_FOUND', 'there is no such run');
  if (isGone) throw gone(`what was said in run "${runId}" is no longer kept`);
  const kept = job.state === 'succeeded' ? (job.result as KeptResult) : undefined;
  const waited = kept || state === undefined ? undefined : runIn(state);
  if (!kept && !waited) throw new OrchdError('ILLEGAL_STATE', `run "${runId}" has made no step yet`);
  const record = kept ? kept.record : waited && recordOf(waited);
  if (!record) throw gone(`run "${runId}" began in a version of orchd that kept no record of its decisions`);
  const steps = kept?.steps ?? waited?.steps ?? [];
  const calls = callsOf(read, steps);
  const request = checkRequest(job.payload);
  const { fork } = request;
  if (fork && depth >= MAX_FORKS)
    throw new OrchdError(
      'UNSUPPORTED',
      `a run is a fork of at most ${MAX_FORKS} others, one after the other`,
    );
  const taken = fork && (await takenState(await loadRun(read, fork.run, depth + 1), fork.step));
  const head: RecordedHead = {
    run_id: job.job_id,
    priority: job.priority,
    created_at: job.created_at,
    ...(job.session_id !== undefined && { session_id: job.session_id }),
    request,
    record,
    conversation: await conversationOf(job.job_id, record, calls),
    ...(taken && { taken }),
    steps,
    ...(kept && { result: shownResult(kept) }),
  };
  return { head, calls };
}

const gone = (message: string): OrchdError => new OrchdError('RUN_GONE', message);

/** Calls that are read before they are asked for: a replay asks for them in this order, one step after the other. */
const READ_AHEAD = 16;

function callsOf(read: ReadRecorded, steps: readonly StepNote[]): RunRecords['calls'] {
  const order = steps.flatMap(({ job_id: id }) => (id === undefined ? [] : [id]));
  const places = new Map(order.map((id, at) => [id, at]));
  const begun = new Map<string, Promise<RecordedCall | undefined>>();
  const begin = (id: string): Promise<RecordedCall | undefined> => {
    const found = begun.get(id) ?? callOf(read, id);
    begun.set(id, found);
    // Whoever asks for the call gets its error; nobody may ask for it.
    found.catch(() => undefined);
    return found;
  };
  return (ids) => {
    const asked = ids.map(begin);
    for (const id of ids) begun.delete(id);
    const at = Math.max(-1, ...ids.map((id) => places.get(id) ?? -1));
    if (at >= 0) order.slice(at + 1, at + 1 + READ_AHEAD).forEach(begin);
    return Promise.all(asked);
  };
}

async function callOf(read: ReadRecorded, id: string): Promise<RecordedCall | undefined> {
  const { job, isGone } = await read(id).catch((error: unknown) => {
    if (error instanceof OrchdError && error.code === 'NOT_FOUND') return { job: undefined, isGone: false };
    throw error;
  });
  if (isGone) throw gone(`what was said in call "${id}" is no longer kept`);
  return job && recordedCall(job);
}

function recordedCall(job: RecordedCall): RecordedCall {
  const { job_id, type, state, tags, model, payload, error, started_at, ended_at, usage, cost } = job;
  // What a run below needs for a replay of its own is in its own records.
  const isAnswered = type === RUN_TYPE && state === 'succeeded' && job.result !== undefined;
  const result = isAnswered ? shownResult(job.result as KeptResult) : job.result;
  return {
    job_id,
    type,
    state,
    ...(tags && { tags }),
    ...(model !== undefined && { model }),
    payload,
    ...(result !== undefined && { result }),
    ...(type === RUN_TYPE && job.created_at !== undefined && { created_at: job.created_at }),
    ...(error && { error }),
    ...(started_at !== undefined && { started_at }),
    ...(ended_at !== undefined && { ended_at }),
    ...(usage && { usage }),
    ...(cost && { cost }),
  };
}

/** The messages of the session when the run began: every call of its model begins with them. */
async function conversationOf(
  runId: string,
  { agent, heard, decisions }: RunRecord,
  calls: RunRecords['calls'],
): Promise<readonly ChatMessage[]> {
  if (heard === 0) return [];
  const { length: from } = newRun(agent, []).system;
  for (let step = 1; step <= decisions; step++) {
    const [call] = await calls([`${runId}.${step}`]);
    if (!call || !isModelCall(runId, call.job_id)) continue;
    const { messages } = call.payload as { readonly messages: readonly ChatMessage[] };
    return messages.slice(from, from + heard);
  }
  throw gone(`no call of run "${runId}" has the messages of its session`);
}
