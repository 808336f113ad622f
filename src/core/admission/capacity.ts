/**
 * The capacity of the queue, in jobs and in bytes. It is checked only here, when a new job is admitted: retries and
 * redrives of admitted jobs are never refused. A tenant other than the default has a share of it, and never displaces
 * waiting jobs, which may be those of another tenant. Modules, which find as much work as there is, leave a tenth of it
 * to others, and displace nothing either.
 */

import { errorInfo, OrchdError } from '../../model/errors.ts';
import { die } from '../../model/moves.ts';
import { DEFAULT_TENANT, type JobClass } from '../../model/records.ts';
import type { JobEntry } from '../state/job-entry.ts';
import type { Turn } from '../turn.ts';
import { isWithinShare } from './share.ts';
import type { Submission } from './submission.ts';

/** The retry time of a refusal while no start rate has been measured. */
const OVER_CAPACITY_RETRY_MS = 1000;
const SHARE_OF_MODULES = 0.9;

/** If the queue is full, drops waiting jobs where its policy allows it and that is enough, else throws QUEUE_FULL. */
export function makeRoom(turn: Turn, submission: Submission): void {
  const { payloadBytes: bytes, tenant, isProposal } = submission;
  checkShare(turn, tenant, bytes);
  if (isProposal) return checkProposal(turn, bytes);
  if (!overCapacity(turn, bytes, 0, 0)) return;
  // Decide before dropping anything: a refusal must leave no change.
  const classes = tenant === DEFAULT_TENANT ? droppable(turn, submission.spec.priority) : [];
  const { waiting } = turn.queue;
  const jobs = classes.reduce((sum, jobClass) => sum + waiting[jobClass].jobs, 0);
  const freed = classes.reduce((sum, jobClass) => sum + waiting[jobClass].bytes, 0);
  if (overCapacity(turn, bytes, jobs, freed)) throw queueFull(turn);
  while (overCapacity(turn, bytes, 0, 0)) drop(turn, oldestWaiting(turn, classes) as JobEntry);
}

function checkProposal(turn: Turn, bytes: number): void {
  const { queueCapacity, queueBytes } = turn.settings;
  const { counts, queuedBytes } = turn.state;
  const mostJobs = Math.ceil(queueCapacity * SHARE_OF_MODULES);
  if (counts.queued < mostJobs && queuedBytes + bytes <= queueBytes * SHARE_OF_MODULES) return;
  throw new OrchdError(
    'QUEUE_FULL',
    'the rest of the queue is kept for others than modules',
    retryAdvice(turn),
  );
}

function checkShare(turn: Turn, tenant: string, bytes: number): void {
  if (tenant === DEFAULT_TENANT) return;
  const { queueCapacity, queueBytes } = turn.settings;
  const { counts, queuedBytes, queuedByTenant } = turn.state;
  const own = queuedByTenant.of(tenant);
  const byCount = { own: own.jobs, others: counts.queued - own.jobs, capacity: queueCapacity };
  const byBytes = { own: own.bytes, others: queuedBytes - own.bytes, capacity: queueBytes, more: bytes };
  if (isWithinShare(tenant, byCount) && isWithinShare(tenant, byBytes)) return;
  throw new OrchdError('QUEUE_FULL', `${own.jobs} jobs of the tenant wait, its share of the queue`, {
    reason: 'tenant_share',
    ...retryAdvice(turn),
  });
}

function overCapacity(turn: Turn, bytes: number, freedJobs: number, freedBytes: number): boolean {
  const { queueCapacity, queueBytes } = turn.settings;
  const { counts, queuedBytes } = turn.state;
  return counts.queued - freedJobs >= queueCapacity || queuedBytes - freedBytes + bytes > queueBytes;
}

/** The classes that may be dropped, in order: batch first; a batch job never displaces an interactive one. */
function droppable(turn: Turn, forClass: JobClass): readonly JobClass[] {
  if (turn.settings.queuePolicy === 'reject') return [];
  return forClass === 'interactive' ? ['batch', 'interactive'] : ['batch'];
}

function oldestWaiting(turn: Turn, classes: readonly JobClass[]): JobEntry | undefined {
  for (const jobClass of classes) {
    let oldest: JobEntry | undefined;
    for (const lane of turn.fleet.lanes.values()) {
      const entry = lane.queueOf(jobClass).oldest();
      if (entry && (!oldest || entry.ask.n < oldest.ask.n)) oldest = entry;
    }
    if (oldest) return oldest;
  }
  return undefined;
}

function drop(turn: Turn, entry: JobEntry): void {
  const error = errorInfo('QUEUE_FULL', 'dropped to make room for newer work', 'dropped');
  turn.put('job', entry.uid, die(entry.job, turn.now, 'dropped', error), 'drop-lru');
}

function queueFull(turn: Turn): OrchdError {
  const { queueCapacity, queueBytes } = turn.settings;
  const byCount = turn.state.counts.queued >= queueCapacity;
  const what = byCount ? `${queueCapacity} jobs` : `${queueBytes} bytes of payload`;
  return new OrchdError('QUEUE_FULL', `the queue holds ${what}, its capacity`, retryAdvice(turn));
}

const retryAdvice = (turn: Turn) => ({
  retryAfterMs: turn.queue.startRate.retryAfterMs(turn.now) ?? OVER_CAPACITY_RETRY_MS,
  policyLabel: turn.settings.queuePolicy,
});
