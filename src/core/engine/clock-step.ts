/**
 * Brain time was set forward or back. What the engine has set itself is moved by the same time, so that the rest of every
 * wait stays as it was: deadlines, timeouts, retries, kills, leases, blocks. An instant that a caller has named
 * (`not_before`) stays: it is an instant of the wall clock.
 */
import { shiftAttempt, shiftJob } from '../../model/moves.ts';
import { isTerminal } from '../../model/states.ts';
import type { JobEntry } from '../state/job-entry.ts';
import type { EngineTurn } from './handler.ts';

const CAUSE = 'clock-step';

/** `byMs` is negative where brain time was set back. */
export function moveInstants(turn: EngineTurn, byMs: number): void {
  for (const entry of turn.state.jobs.values()) moveJob(turn, entry, byMs);
  moveRecords(turn, byMs);
  turn.state.leases.moveInstants(byMs);
  turn.state.consumers.moveInstants(byMs);
  turn.state.pools.moveInstants(byMs);
  turn.queue.moveInstants(byMs);
  turn.queue.startRate.clear();
}

function moveJob(turn: EngineTurn, entry: JobEntry, byMs: number): void {
  entry.readyAt += byMs;
  if (entry.open) turn.put('attempt', entry.token, shiftAttempt(entry.open, byMs), CAUSE);
  if (isTerminal(entry.job.state)) return;
  const { job } = entry;
  // A job that waits for an instant of its caller may have been judged by another time.
  if (job.state === 'queued') turn.state.settle(entry, turn.now);
  const isTimed =
    job.notBefore !== undefined ||
    job.startedAt !== undefined ||
    job.cancel !== undefined ||
    (job.state === 'waiting' && job.wait?.until !== undefined);
  const { deadlineFrom } = entry;
  if (isTimed || deadlineFrom !== undefined)
    turn.put('job', entry.uid, shiftJob(job, byMs, deadlineFrom), CAUSE);
}

function moveRecords(turn: EngineTurn, byMs: number): void {
  const { failures, workers, tables } = turn.state;
  for (const [id, failure] of [...failures])
    turn.put('failure', id, { ...failure, until: failure.until + byMs }, CAUSE);
  for (const [id, worker] of [...workers.entries()])
    turn.put('worker', id, { ...worker, at: worker.at + byMs }, CAUSE);
  for (const [id, spent] of [...tables.spent.entries()]) {
    if (!spent.minute) continue;
    const minute = { ...spent.minute, until: spent.minute.until + byMs };
    turn.put('spent', id, { ...spent, minute }, CAUSE);
  }
  for (const [id, order] of [...tables.pool.entries()]) {
    if (order.drainBy !== undefined) turn.put('pool', id, { ...order, drainBy: order.drainBy + byMs }, CAUSE);
  }
  for (const [id, pool] of [...tables.worker_pool.entries()]) {
    if (pool.drainBy === undefined) continue;
    turn.put('worker_pool', id, { ...pool, drainBy: pool.drainBy + byMs }, CAUSE);
  }
}
