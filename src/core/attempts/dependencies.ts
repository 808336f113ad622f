/**
 * Passes the ends of jobs on to the jobs that wait for them (`after`): a waiter goes on, or is dead if the end is not the
 * one that it demands.
 *
 * D1  A job whose `after_policy` is not met never starts: a bad end is passed on in the commit of that end or, for the
 *     waiters that are left over, by a record of that commit (FailedDependencyRecord, docs/decisions/0026).
 */
import { errorInfo, OrchdError } from '../../model/errors.ts';
import { die } from '../../model/moves.ts';
import { type AskRecord, uidOf } from '../../model/records.ts';
import type { EndState } from '../../model/states.ts';
import { type Awaited, awaitedBy, endOfEntry } from '../state/end-waiters.ts';
import type { JobEntry } from '../state/job-entry.ts';
import type { Turn } from '../turn.ts';
import { wakeJobs } from './waiting.ts';

/** Waiters that one step releases or ends, which bounds its time; the next tick goes on with the others. */
export const SETTLED_PER_STEP = 250;

/** Called at the end of every step. */
export function settleWaiters(turn: Turn): void {
  const { waiters } = turn.state;
  let left = SETTLED_PER_STEP;
  for (let awaited = waiters.unsettled.at(-1); awaited; awaited = waiters.unsettled.at(-1)) {
    const entry = awaited.unsettled;
    if (entry && left-- === 0) break;
    if (entry) settleOne(turn, awaited, entry);
    else finish(turn, awaited);
  }
  for (const awaited of waiters.unsettled) record(turn, awaited);
  if (waiters.unsettled.length === 0) wakeJobs(turn, left);
}

function settleOne(turn: Turn, awaited: Awaited, entry: JobEntry): void {
  const { state, now } = turn;
  state.waiters.settle(awaited, entry);
  if (entry.job.state === 'waiting') return;
  if (awaited.end !== undefined && !isMet(entry.ask, awaited.end)) {
    const error = errorInfo('DEPENDENCY_FAILED', failureText(awaited.uid, awaited.end), 'dependency');
    turn.put('job', entry.uid, die(entry.job, now, 'dependency', error), 'dependency');
    return;
  }
  state.settle(entry, now);
}

/** All waiters of this job are settled. */
function finish(turn: Turn, { uid }: Awaited): void {
  turn.state.waiters.pop();
  if (turn.state.tables.failed_dependency.get(uid)) turn.put('failed_dependency', uid, null, 'settled');
}

/** D1, for a job with waiters that are left over. */
function record(turn: Turn, { uid, end }: Awaited): void {
  const isKnown = turn.state.tables.failed_dependency.get(uid)?.end === end;
  if (isKnown || end === undefined || end === 'succeeded') return;
  turn.put('failed_dependency', uid, { v: 1, end }, 'dependency');
}

const isMet = ({ spec }: AskRecord, end: EndState): boolean =>
  end === 'succeeded' || spec.after_policy === 'ended';

const idOf = (uid: string): string => uid.slice(uid.indexOf('~') + 1);

const failureText = (uid: string, end: EndState): string =>
  `job "${idOf(uid)}", which it waits for, is ${end}`;

/**
 * How the jobs of `after` had ended, by uid, when the history was read for them; `in memory` for those that were in memory
 * then. What is in memory now is newer than that.
 */
export type KnownEnds = ReadonlyMap<string, EndState | 'in memory'>;

/** The job has left memory since the history was read: what it says has to be read again. */
const overtaken = (): OrchdError =>
  new OrchdError('STORE_BUSY', 'a job that it waits for has just ended; try again');

/** Refuses a job that waits for a job that does not exist, or no longer. */
export function checkDependencies(
  turn: Turn,
  { id, tenant, spec }: Pick<AskRecord, 'id' | 'tenant' | 'spec'>,
  ends: KnownEnds | undefined,
): void {
  for (const awaited of spec.after ?? []) {
    const uid = uidOf(tenant, awaited);
    if (awaited === id) throw refusal(`a job cannot wait for itself ("${awaited}")`);
    if (turn.state.jobs.has(uid)) continue;
    const known = ends?.get(uid);
    if (known === 'in memory') throw overtaken();
    if (known !== undefined) continue;
    if (turn.state.batches.of(tenant, awaited)) throw refusal(`"${awaited}" is a batch; after takes job ids`);
    throw refusal(
      `there is no job "${awaited}" to wait for: submit it first; ended jobs are deleted after a while`,
    );
  }
}

/** Passes the bad ends of jobs that have left memory on to a new job that waits for them. */
export function passOnKnownEnds({ state, now }: Turn, entry: JobEntry, ends: KnownEnds | undefined): void {
  for (const uid of awaitedBy(entry)) {
    const end = state.jobs.has(uid) ? undefined : ends?.get(uid);
    if (end === 'dead' || end === 'cancelled') state.waiters.passOn(uid, end, entry);
  }
  if (entry.waitsFor > 0) state.settle(entry, now);
}

const refusal = (message: string): OrchdError =>
  new OrchdError('ADMISSION_REJECT', message, { reason: 'unknown_dependency', field: 'after' });

/** Refuses to redrive a job that has never started while a job that it waits for has not ended as it demands. */
export function recheckDependencies(turn: Turn, ask: AskRecord, ends: KnownEnds | undefined): void {
  for (const awaited of ask.spec.after ?? []) {
    const uid = uidOf(ask.tenant, awaited);
    const entry = turn.state.jobs.get(uid);
    const end = entry ? endOfEntry(entry) : ends?.get(uid);
    if (entry && end === undefined) continue;
    if (end === 'in memory') throw overtaken();
    if (end !== undefined && isMet(ask, end)) continue;
    const message =
      end === undefined
        ? `job "${awaited}", which it waits for, has been deleted: submit both again`
        : `job "${awaited}", which it waits for, is ${end}: redrive or submit that one first`;
    throw new OrchdError('ILLEGAL_STATE', message, { reason: 'dependency' });
  }
}
