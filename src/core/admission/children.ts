/** Admits the jobs below a job that waits, in the commit in which it begins to wait. */
import { OrchdError } from '../../model/errors.ts';
import type { RefusedChild } from '../../model/waiting.ts';
import { MAX_CHILDREN } from '../../model/waiting.ts';
import { noteRefused } from '../attempts/waiting.ts';
import type { NewJob } from '../ports/new-job.ts';
import type { JobEntry } from '../state/job-entry.ts';
import type { Turn } from '../turn.ts';
import { submit } from './submit.ts';

/** A job that is refused does not end the one above it, which learns of the refusal when it goes on. */
export function admitChildren(turn: Turn, parent: JobEntry, children: readonly NewJob[]): void {
  const refused: RefusedChild[] = [];
  for (const [at, child] of children.entries()) {
    try {
      if (at >= MAX_CHILDREN)
        throw new OrchdError('INVALID_PARAMS', `a job waits for at most ${MAX_CHILDREN} others at once`);
      submit(turn, below(parent, child), 'begun');
    } catch (error) {
      if (!(error instanceof OrchdError)) throw error;
      refused.push({ id: child.id, error: error.info() });
    }
  }
  noteRefused(turn, parent, refused);
}

/** In a session of the job above it, a job would wait for that one to end if it was to run in order. */
function below({ ask }: JobEntry, child: NewJob): NewJob {
  const isInSession = child.spec.session_id !== undefined && child.spec.session_id === ask.spec.session_id;
  const spec = { ...child.spec, parent_id: ask.id, ...(isInSession && { parallel: true }) };
  return { ...child, spec };
}
