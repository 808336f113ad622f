/**
 * Runs of other agents below a run: the jobs that they are, and how many of them may begin (docs/decisions/0043).
 *
 * S1  The runs that may begin below a run are shared out when some begin: each gets a part for its own runs, and the run
 *     keeps the rest. So all runs below the topmost one together are never more than it may have, whoever starts them,
 *     and no step needs to know of any other run.
 * S2  A run that was not admitted has begun nothing: its part is given back.
 */
import { DEFAULT_MAX_RUNS, type RunRequest } from '../model/agent.ts';
import { AGENT_CATEGORY, RUN_TYPE, type StepTags, type ToolPayload } from '../model/run-jobs.ts';
import type { ChildJob, EndedCall, Next, RunState, StepContext } from './run-state.ts';

/** The runs of other agents that may still begin below this one. */
export const runsLeft = ({ runsLeft: left, agent }: RunState): number =>
  left ?? agent.max_runs ?? DEFAULT_MAX_RUNS;

export interface RunToStart {
  readonly agent: string;
  readonly asked: Pick<RunRequest, 'input' | 'messages'>;
  readonly event: 'branch' | 'tool_call';
  readonly isApproved: boolean;
}

/** A run below this one. What it may use is filled in when it is known how many begin at once. */
export function runJob(
  { run, priority }: StepContext,
  id: string,
  { agent, asked, event, isApproved }: RunToStart,
): ChildJob {
  const tags: StepTags = {
    agent: run.agent.name,
    event,
    tool: agent,
    category: AGENT_CATEGORY,
    ...(isApproved && { approved: 'yes' }),
  };
  const payload: RunRequest = { agent, ...asked, apart: true, max_runs: 0 };
  return { job_id: id, type: RUN_TYPE, priority, tags, payload };
}

/** Whether a run begins with the job: it is one, or it starts one that works in the background. */
export const beginsRun = ({ type, payload }: ChildJob): boolean =>
  type === RUN_TYPE || (payload as Partial<ToolPayload>).starts !== undefined;

/** S1. */
export function sharedOut(next: Next): Next {
  const { run, jobs } = next;
  const begins = jobs.filter(beginsRun);
  const count = begins.length;
  if (count === 0) return next;
  const left = runsLeft(run);
  const share = Math.max(0, Math.floor((left - count) / (count + 1)));
  const ids = new Set(begins.map(({ job_id: id }) => id));
  return {
    ...next,
    run: {
      ...run,
      runsLeft: left - count * (share + 1),
      asked: run.asked.map((each) => (ids.has(each.jobId) ? { ...each, runs: share + 1 } : each)),
    },
    jobs: jobs.map((job) => (ids.has(job.job_id) ? withRuns(job, share) : job)),
  };
}

function withRuns(job: ChildJob, runs: number): ChildJob {
  const payload = job['payload'] as RunRequest | ToolPayload;
  if (job['type'] === RUN_TYPE) return { ...job, payload: { ...payload, max_runs: runs } };
  const { starts } = payload as ToolPayload;
  return { ...job, payload: { ...payload, starts: { ...starts, max_runs: runs } } };
}

/** S2. */
export function withGivenBack(run: RunState, ended: readonly EndedCall[] = []): RunState {
  const refused = new Set(ended.filter(({ isRefused }) => isRefused).map(({ jobId }) => jobId));
  const runs = run.asked.reduce((sum, { jobId, runs: own = 0 }) => (refused.has(jobId) ? sum + own : sum), 0);
  return runs === 0 ? run : { ...run, runsLeft: runsLeft(run) + runs };
}
