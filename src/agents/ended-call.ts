/** How a job below a run has ended, as the steps of the run are told. */
import type { JobCost, JobView } from '../model/http/jobs.ts';
import { RUN_TYPE } from '../model/run-jobs.ts';
import { RESULT_GONE, type RunResult } from './run.ts';
import type { EndedCall, RunState } from './run-state.ts';

/** The part of a job that says how it has ended. */
export type EndedJob = Pick<
  JobView,
  'job_id' | 'type' | 'state' | 'result' | 'error' | 'started_at' | 'ended_at' | 'cost'
> &
  Partial<Pick<JobView, 'created_at'>>;

export function endedCall(job: EndedJob): EndedCall {
  const { job_id: jobId, state, result, error, ended_at: endedAt } = job;
  // Each attempt of a run is short: it takes from its submit to its end.
  const startedAt = job.type === RUN_TYPE ? job.created_at : job.started_at;
  const isRun = job.type === RUN_TYPE && state === 'succeeded';
  const run = isRun ? (result as RunResult | undefined) : undefined;
  const cost = run ? run.cost : job.cost;
  const durationMs = startedAt === undefined || endedAt === undefined ? 0 : Math.max(0, endedAt - startedAt);
  const ended = { jobId, result: undefined, durationMs, ...(cost && { cost }) };
  if (isRun) return { ...ended, result: saidBy(run) };
  if (state === 'succeeded') return { ...ended, result };
  const what = error ?? { code: 'CANCELLED', message: `it was ${state}` };
  return { ...ended, error: what as NonNullable<EndedCall['error']> };
}

/** What a run of another agent tells the run above it: the same as a tool. */
export interface SubRunResult {
  readonly ok: boolean;
  readonly text: string;
  /** Why it has no answer. */
  readonly code?: string;
}

/** What `run` has said. It is undefined where the session of the run was deleted, and its texts with it. */
export function saidBy(run: RunResult | undefined): SubRunResult {
  if (!run) return { ok: false, text: RESULT_GONE.message, code: RESULT_GONE.code };
  const { reply, error } = run;
  return { ok: !error, text: reply, ...(error && { code: error.code }) };
}

/** A job that was not admitted. */
export const refusedCall = (jobId: string, error: NonNullable<EndedCall['error']>): EndedCall => ({
  jobId,
  result: undefined,
  error,
  isRefused: true,
  durationMs: 0,
});

/** Adds what the calls have cost. A lost attempt is repeated from the state before, so each is counted once. */
export function withCosts(run: RunState, ended: readonly EndedCall[] = []): RunState {
  const costs = [run.cost, ...ended.map(({ cost }) => cost)].filter((cost) => cost !== undefined);
  if (costs.length === 0) return run;
  const sum = (of: keyof JobCost): number => costs.reduce((total, cost) => total + cost[of], 0);
  return { ...run, cost: { amount: sum('amount'), assumed: sum('assumed'), reserved: sum('reserved') } };
}
