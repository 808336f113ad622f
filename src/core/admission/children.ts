/** Admits the jobs below a job that waits, in the commit in which it begins to wait. */
import { OrchdError } from '../../model/errors.ts';
import { scoped, uidOf } from '../../model/records.ts';
import { MAX_CHILDREN, type RefusedChild } from '../../model/waiting.ts';
import { noteChildren } from '../attempts/waiting.ts';
import type { NewJob, SessionLookup } from '../ports/new-job.ts';
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
  return {
    ...child,
    session: session === undefined ? undefined : lookupNow(turn, ask.tenant, session, child.session),
    spec: isInSessionOf(turn, parent, session) ? { ...spec, parallel: true } : spec,
  };
}

/**
 * What was found of a child's session, if it is still so. A child cannot be sent again as a submit is: it is refused only
 * where its own session has left memory since the look, for the archive or because somebody has deleted it.
 */
function lookupNow(
  { state: { sessions } }: Turn,
  tenant: string,
  session: string,
  lookup: SessionLookup | undefined,
): SessionLookup | undefined {
  if (!lookup || sessions.mayHaveLeftSince(scoped(tenant, session), lookup.left)) return lookup;
  return { ...lookup, left: sessions.left };
}

/** Whether the job is in the session of one above it: in order, it would wait for that one to end, which waits for it. */
function isInSessionOf({ state }: Turn, { ask }: JobEntry, session: string | undefined): boolean {
  if (session === undefined) return false;
  return [...(ask.ancestors ?? []), ask.id].some(
    (id) => state.jobs.get(uidOf(ask.tenant, id))?.ask.spec.session_id === session,
  );
}
