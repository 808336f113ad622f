/**
 * Jobs that wait without an attempt (docs/decisions/0033). An execution may end by asking to wait: its attempt is closed,
 * and the job goes on in the queue when jobs below it have ended, when its instant has come, or when somebody answers.
 *
 * Y1  The end of the attempt, what the job keeps, its new state and the jobs below it are changes of one commit: the
 *     attempt only adds the fact that jobs are to be admitted, and the engine admits them in the same turn.
 */

import { isSealed, sealedBytes } from '../../kit/seal.ts';
import { type Body, INLINE_BODY_BYTES } from '../../model/body.ts';
import { type ErrorInfo, errorInfo, OrchdError } from '../../model/errors.ts';
import { wait, wake } from '../../model/moves.ts';
import {
  type RefusedChild,
  SEPARATE_STATE_CHARS,
  type WaitRecord,
  type WakeReason,
} from '../../model/waiting.ts';
import type { Waits } from '../ports/backend.ts';
import { childrenHaveEnded } from '../state/end-waiters.ts';
import type { JobEntry } from '../state/job-entry.ts';
import type { State } from '../state/state.ts';
import type { Turn } from '../turn.ts';

/** The job waits from now on. */
export function waitFor(turn: Turn, entry: JobEntry, outcome: Waits): void {
  const { state, needs, forMs, children, refused, budget, label } = outcome;
  const record: WaitRecord = {
    step: (entry.job.wait?.step ?? 0) + 1,
    state: isSeparate(state) ? undefined : state,
    children: distinct(children.map(({ id }) => id)),
    needs,
    until: forMs === undefined ? undefined : turn.now + Math.ceil(Math.max(0, forMs)),
    ...(refused && { refused }),
    ...(budget && { budget }),
    ...(label !== undefined && { label }),
  };
  turn.put('job', entry.uid, wait(entry.job, record), 'waits');
  if (isSeparate(state)) turn.put('wait_state', entry.uid, { v: 1, text: state }, 'waits');
  else if (turn.state.waitStates.get(entry.uid)) turn.put('wait_state', entry.uid, null, 'waits');
  turn.noteEnd({ is: 'waits', entry, children });
}

/** Copied into a list of just this length: one that was made item by item has room for 17, in each waiting job. */
const distinct = (ids: readonly string[]): readonly string[] =>
  ids.length < 2 ? ids : [...new Set(ids)].slice();

const isSeparate = (state: Body): state is string =>
  typeof state === 'string' && state.length >= SEPARATE_STATE_CHARS;

/** What a job that has waited goes on with; undefined if it has never waited. */
export const waitStateOf = ({ waitStates }: State, { uid, job }: JobEntry): Body | undefined =>
  job.wait?.state ?? waitStates.get(uid)?.text;

/** The state that a job goes on with after its wait number `step`: the text has been moved to a blob, which `state` names. */
export interface StoredState {
  readonly uid: string;
  readonly step: number;
  readonly state: Body;
}

/** The record of the job names the blob from now on, and memory is free of the text. */
export function nameState(turn: Turn, { uid, step, state }: StoredState): void {
  const entry = turn.state.jobs.get(uid);
  const record = entry?.job.wait;
  if (!entry || record?.step !== step || !turn.state.waitStates.get(uid)) return;
  turn.put('job', uid, { ...entry.job, wait: { ...record, state } }, 'stored');
  turn.put('wait_state', uid, null, 'stored');
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
  turn.put('job', entry.uid, wake(entry.job, turn.now, why, answer), { is: 'wake', why });
}

/** A waiting job whose deadline has come ends where it is, with the jobs below it (expiry.ts): it goes on no more. */
export const isPastDeadline = ({ now }: Turn, { deadlineAt }: JobEntry): boolean =>
  deadlineAt !== undefined && deadlineAt <= now;

/** Wakes at most `atMost` jobs for which enough jobs have ended. */
export function wakeJobs(turn: Turn, atMost: number): void {
  const { wakeable } = turn.state.waiters;
  let left = atMost;
  for (const entry of wakeable) {
    if (left-- <= 0) return;
    wakeable.delete(entry);
    if (childrenHaveEnded(entry) && !isPastDeadline(turn, entry)) wakeJob(turn, entry, 'children');
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
  if (state !== 'waiting' || record?.step !== step || isPastDeadline(turn, entry))
    throw new OrchdError('ILLEGAL_STATE', `job "${entry.ask.id}" does not wait for this answer`);
  wakeJob(turn, entry, 'answer', answer);
  return entry;
}

export const tooManyWait = (most: number): ErrorInfo =>
  errorInfo('QUEUE_FULL', `${most} jobs wait for others, as many as may`, 'max_waiting');
