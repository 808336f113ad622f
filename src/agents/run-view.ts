/** The state of a run, read off its job and the jobs that it waits for. */

import { OrchdError } from '../model/errors.ts';
import type { JobView } from '../model/http/jobs.ts';
import type { RunStateName, RunView } from '../model/http/runs.ts';
import { APPROVAL_TYPE, FORK_TAGS, RUN_TYPE, TOOL_TYPE } from '../model/run-jobs.ts';
import { isTerminal } from '../model/states.ts';
import { type KeptResult, RESULT_GONE, type RunResult, shownResult } from './run.ts';

export type ReadJob = (id: string) => Promise<JobView>;

/** Throws NOT_FOUND for a job that is no run. */
export async function runView(runId: string, read: ReadJob): Promise<RunView> {
  const job = await read(runId);
  if (job.type !== RUN_TYPE) throw new OrchdError('NOT_FOUND', 'there is no such run');
  const below = job.state === 'waiting' ? await jobsBelow(job, read) : [];
  const result = resultOf(job);
  const state = stateOf(job, await statesBelow(below, read), result);
  return {
    run_id: job.job_id,
    state: job.paused ? 'paused' : state,
    created_at: job.created_at,
    ...(job.ended_at !== undefined && { ended_at: job.ended_at }),
    ...(job.paused && { paused: { ...job.paused, state } }),
    ...(below.length > 0 && {
      waits_for: below.map(({ job_id, type, state }) => ({ job_id, type, state })),
    }),
    ...(result && { ...result, steps: [...result.steps] }),
    ...(!result && errorOf(job)),
    ...(job.budget && { budget: job.budget }),
    ...originOf(job.tags),
  };
}

/** The result of a run that has ended with one, unless its texts are gone. */
const resultOf = ({ state, result }: JobView): RunResult | undefined =>
  state === 'succeeded' && result !== undefined ? shownResult(result as KeptResult) : undefined;

/** Why a run that has ended shows no result. */
function errorOf({ state, error }: JobView): Pick<RunView, 'error'> {
  if (state === 'succeeded') return { error: RESULT_GONE };
  return error ? { error: { code: error.code, message: error.message } } : {};
}

function originOf(tags: JobView['tags']): Pick<RunView, 'forked_from'> {
  const { [FORK_TAGS.run]: run, [FORK_TAGS.step]: step } = tags ?? {};
  return run === undefined ? {} : { forked_from: { run_id: run, step: Number(step) || 1 } };
}

interface Below {
  readonly job: JobView;
  /** Of a run: what it does. */
  readonly does: RunStateName | undefined;
}

/** A run below another one may wait for a person, too. */
function statesBelow(jobs: readonly JobView[], read: ReadJob): Promise<readonly Below[]> {
  return Promise.all(
    jobs.map(async (job) => {
      const isLive = job.type === RUN_TYPE && !isTerminal(job.state);
      return { job, does: isLive ? (await runView(job.job_id, read)).state : undefined };
    }),
  );
}

/** A job that was purged has ended long ago. */
async function jobsBelow({ wait }: JobView, read: ReadJob): Promise<JobView[]> {
  const found = await Promise.all((wait?.jobs ?? []).map((id) => read(id).catch(orNone)));
  return found.filter((job) => job !== undefined);
}

function orNone(error: unknown): undefined {
  if (error instanceof OrchdError && error.code === 'NOT_FOUND') return undefined;
  throw error;
}

function stateOf(job: JobView, below: readonly Below[], result: RunResult | undefined): RunStateName {
  switch (job.state) {
    case 'succeeded':
      return result?.error || job.run_state === 'failed' ? 'failed' : 'completed';
    case 'cancelled':
      return 'cancelled';
    case 'dead':
      return 'failed';
    case 'waiting':
      return waitingState(below);
    default:
      return job.wait || job.state === 'running' ? 'running' : 'queued';
  }
}

function waitingState(below: readonly Below[]): RunStateName {
  const is = (state: RunStateName): boolean => below.some(({ does }) => does === state);
  if (is('needs_decision') || below.some(({ job }) => job.state === 'stale')) return 'needs_decision';
  const isAsking = below.some(({ job: { type, state } }) => type === APPROVAL_TYPE && !isTerminal(state));
  if (is('awaiting_approval') || isAsking) return 'awaiting_approval';
  if (below.some(({ job: { type } }) => type === TOOL_TYPE || type === RUN_TYPE)) return 'tool_execution';
  // A call was not admitted for now: it is asked for again after a pause.
  if (below.length === 0) return 'running';
  return below.some(({ job: { state } }) => state === 'queued') ? 'llm_queued' : 'llm_call';
}
