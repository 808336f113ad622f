/**
 * Jobs that wait without an attempt (docs/decisions/0033). An execution may end by asking to wait: its attempt is closed,
 * and the job goes on in the queue when jobs below it have ended, when its instant has come, or when somebody answers.
 *
 * Y1  The end of the attempt, what the job keeps, its new state and the jobs below it are changes of one commit: the
 *     attempt only adds the fact that jobs are to be admitted, and the engine admits them in the same turn.
 */

import { isSealed, sealedBytes } from '../../kit/seal.ts';
import { INLINE_BODY_BYTES } from '../../model/body.ts';
import { type ErrorInfo, errorInfo, OrchdError } from '../../model/errors.ts';
import { wait, wake } from '../../model/moves.ts';
import type { RefusedChild, WaitRecord, WakeReason } from '../../model/waiting.ts';
import type { Waits } from '../ports/backend.ts';
import { childrenHaveEnded } from '../state/end-waiters.ts';
import type { JobEntry } from '../state/job-entry.ts';
import type { Turn } from '../turn.ts';

/** The job waits from now on. */
export function waitFor(turn: Turn, entry: JobEntry, outcome: Waits): void {
  const { state, needs, forMs, children, refused, budget } = outcome;
  const record: WaitRecord = {
    step: (entry.job.wait?.step ?? 0) + 1,
    state,
    children: [...new Set(children.map(({ id }) => id))],
    needs,
    until: forMs === undefined ? undefined : turn.now + Math.ceil(Math.max(0, forMs)),
    ...(refused && { refused }),
    ...(budget && { budget }),
  };
  turn.put('job', entry.uid, wait(entry.job, record), 'waits');
  turn.noteEnd({ is: 'waits', entry, children });
}

/** Notes for which jobs a waiting one waits after all, and which of those that it wanted were not admitted. */
export function noteChildren(
  turn: Turn,
  entry: JobEntry,
  children: readonly string[],
  more: readonly RefusedChild[],
): void {
  const { wait: record } = entry.job;
  if (!record) return;
  const refused = [...(record.refused ?? []), ...more];
  if (more.length > 0 || children.join() !== record.children.join()) {
    const noted = { ...record, children, ...(refused.length > 0 && { refused }) };
    turn.put('job', entry.uid, { ...entry.job, wait: noted }, 'waits');
  }
  if (children.length === 0 && refused.length > 0) wakeJob(turn, entry, 'children');
}

export function wakeJob(turn: Turn, entry: JobEntry, why: WakeReason, answer?: string): void {
  if (entry.job.state !== 'waiting') return;
  turn.put('job', entry.uid, wake(entry.job, why, answer), { is: 'wake', why });
}

/** Wakes at most `atMost` jobs for which enough jobs have ended. */
export function wakeJobs(turn: Turn, atMost: number): void {
  const { wakeable } = turn.state.waiters;
  let left = atMost;
  for (const entry of wakeable) {
    if (left-- <= 0) return;
    wakeable.delete(entry);
    if (childrenHaveEnded(entry)) wakeJob(turn, entry, 'children');
  }
}

/** An answer from outside wakes a waiting job. `step` is the wait that is answered: each is answered once. */
export function answerJob(turn: Turn, uid: string, step: number, answer: string): JobEntry {
  const entry = turn.state.jobs.get(uid);
  if (!entry) throw new OrchdError('NOT_FOUND', `there is no job "${uid}"`);
  const most = isSealed(answer) ? sealedBytes(INLINE_BODY_BYTES) : INLINE_BODY_BYTES;
  if (Buffer.byteLength(answer) > most)
    throw new OrchdError('INVALID_PARAMS', `an answer has at most ${INLINE_BODY_BYTES} bytes`);
  const { state, wait: record } = entry.job;
  if (state !== 'waiting' || record?.step !== step)
    throw new OrchdError('ILLEGAL_STATE', `job "${entry.ask.id}" does not wait for this answer`);
  wakeJob(turn, entry, 'answer', answer);
  return entry;
}

export const tooManyWait = (most: number): ErrorInfo =>
  errorInfo('QUEUE_FULL', `${most} jobs wait for others, as many as may`, 'max_waiting');
