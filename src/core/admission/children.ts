/** Admits the jobs below a job that waits, in the commit in which it begins to wait. */
import { OrchdError } from '../../model/errors.ts';
import { uidOf } from '../../model/records.ts';
import { MAX_CHILDREN, type RefusedChild } from '../../model/waiting.ts';
import { noteChildren } from '../attempts/waiting.ts';
import type { NewJob } from '../ports/new-job.ts';
import type { JobEntry } from '../state/job-entry.ts';
import type { Turn } from '../turn.ts';
import { submit } from './submit.ts';

/**
 * A job that is refused does not end the one above it, which learns of the refusal when it goes on. Returns the jobs that
 * are new.
 */
export function admitChildren(turn: Turn, parent: JobEntry, children: readonly NewJob[]): JobEntry[] {
  const admitted: JobEntry[] = [];
  const refused: RefusedChild[] = [];
  const ids = new Set<string>();
  for (const child of children) {
    try {
      if (ids.size >= MAX_CHILDREN)
        throw new OrchdError('INVALID_PARAMS', `a job waits for at most ${MAX_CHILDREN} others at once`);
      const admission = submit(turn, below(turn, parent, child), 'begun');
      // A job with the same key may have another id.
      ids.add(admission.is === 'ended' ? admission.id : admission.entry.ask.id);
      if (admission.is === 'admitted') admitted.push(admission.entry);
    } catch (error) {
      if (!(error instanceof OrchdError)) throw error;
      refused.push({ id: child.id, error: error.info() });
    }
  }
  noteChildren(turn, parent, [...ids], refused);
  return admitted;
}

function below(turn: Turn, parent: JobEntry, child: NewJob): NewJob {
  const { ask } = parent;
  // Its tokens count in the session of the job that waits for it, and its texts are erased with that session.
  const session = child.spec.session_id ?? ask.spec.session_id;
  const spec = { ...child.spec, parent_id: ask.id, ...(session !== undefined && { session_id: session }) };
  // A child cannot be sent again: what was found of its session counts, even if sessions have left memory since.
  const lookup = child.session && { ...child.session, left: turn.state.sessions.left };
  return {
    ...child,
    session: lookup,
    spec: isInSessionOf(turn, parent, session) ? { ...spec, parallel: true } : spec,
  };
}

/** Whether the job is in the session of one above it: in order, it would wait for that one to end, which waits for it. */
function isInSessionOf({ state }: Turn, { ask }: JobEntry, session: string | undefined): boolean {
  if (session === undefined) return false;
  return [...(ask.ancestors ?? []), ask.id].some(
    (id) => state.jobs.get(uidOf(ask.tenant, id))?.ask.spec.session_id === session,
  );
}
