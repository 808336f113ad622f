/** Jobs, runs and approvals as tools show them: short, and with everything that a model has written marked as data. */
import type { JobView } from '../../model/http/jobs.ts';
import type { ApprovalView, RunView } from '../../model/http/runs.ts';
import { marked } from './marked-data.ts';

type Shown = Readonly<Record<string, unknown>>;

/** Fields of a job that are for operators, or that its submitter knows. */
const LEFT_OUT = ['attempts', 'payload', 'payload_bytes', 'result', 'error', 'score', 'max_tries', 'wait'];

/** `offset`: where to begin in the text of a long result. */
export function shownJob(job: JobView, offset = 0): Shown {
  const facts = Object.entries(job).filter(([name]) => !LEFT_OUT.includes(name));
  return {
    ...Object.fromEntries(facts),
    ended: job.ended_at !== undefined,
    ...(job.error && { error: marked(job.error) }),
    ...(job.result !== undefined && { result: marked(job.result, offset) }),
  };
}

export function shownRun(run: RunView, offset = 0): Shown {
  const { reply, error, ...facts } = run;
  return {
    ...facts,
    ended: run.ended_at !== undefined,
    ...(reply !== undefined && { reply: marked(reply, offset) }),
    ...(error && { error: marked(error) }),
  };
}

/** The model has chosen the arguments of the call. */
export function shownApproval({ args, ...facts }: ApprovalView): Shown {
  return { ...facts, ...(args !== undefined && { args: marked(args) }) };
}
