/** The invariants, checked from the state, from the raw log and from the ledgers of executors and clients. */

import { due } from '../../src/core/engine/due.ts';
import { awaitedBy, endOfEntry } from '../../src/core/state/end-waiters.ts';
import type { JobEntry } from '../../src/core/state/job-entry.ts';
import type { EngineView } from '../../src/core/turn.ts';
import { causeText } from '../../src/model/causes.ts';
import type { AttemptRecord, Change, JobRecord } from '../../src/model/records.ts';
import { ATTEMPT_TRANSITIONS, isTerminal, JOB_TRANSITIONS, usesSlot } from '../../src/model/states.ts';
import type { SubmitRequest } from '../../src/model/submit.ts';
import type { FakeExecutor, Run } from '../fakes/executor.ts';
import { check } from './check.ts';
import { DependencyRules } from './dependency-rules.ts';

/** Cheap enough for every event. */
export function checkCounts(
  { state, queue }: EngineView,
  executors: readonly FakeExecutor[],
  capacity: number,
): void {
  let live = 0;
  for (const count of Object.values(state.counts)) {
    check(count >= 0, 'no state has a negative count');
    live += count;
  }
  check(live === state.jobs.size, 'every job is counted once');
  check(state.queuedBytes >= 0, 'queued bytes are not negative');
  check(state.counts.failed === 0, 'failed is passed through, never rested in');
  check(state.counts.queued <= capacity + state.jobs.size, 'the queue is bounded');
  for (const executor of executors) {
    const used = queue.fleet.usedSlots(executor.info.name);
    check(
      used <= executor.info.slots,
      `backend ${executor.info.name} holds ${used} of ${executor.info.slots} slots`,
    );
  }
}

/** Jobs of a batch by state, as counted from their records. */
function checkBatches({ state }: EngineView): void {
  const live = new Map<string, number>();
  for (const { ask, job } of state.jobs.values())
    if (ask.spec.batch !== undefined && !isTerminal(job.state))
      live.set(ask.spec.batch, (live.get(ask.spec.batch) ?? 0) + 1);
  for (const { tenant, id } of state.batches.values()) {
    const counted = state.batches.jobs(tenant, id)?.live ?? 0;
    check(
      counted === (live.get(id) ?? 0),
      `batch ${id} has ${live.get(id)} live jobs, and counts ${counted}`,
    );
  }
}

/** A job waits for others exactly while one of them holds it back. */
function checkWaiting({ state }: EngineView, entry: JobEntry): void {
  const held = awaitedBy(entry).filter((uid) => state.waiters.of(uid)?.held.has(entry)).length;
  check(entry.waitsFor === held, `${entry.uid} waits for ${held} jobs`);
  if (awaitedBy(entry).length === 0) return check(entry.waitsFor === 0, `${entry.uid} waits for none`);
  if (state.waiters.isUnsettled) return;
  const live = awaitedBy(entry).filter((uid) => endOfEntry(state.jobs.get(uid)) === undefined).length;
  check(live === held, `${entry.uid} is held back by the ${live} live jobs that it names`);
}

/** Consumers hold what the records say, and no more than they have slots for. */
function checkPulled({ state }: EngineView): void {
  const open = [...state.open.values()];
  for (const [id, { slots }] of state.consumers.entries()) {
    const held = open.filter((entry) => entry.open?.holder?.consumer === id);
    check(held.length === state.pulled.held(id).size, `${id} holds what the records say`);
    check(held.filter(({ open: each }) => usesSlot(each)).length <= slots, `${id} holds at most ${slots}`);
  }
  for (const { open: each, token } of open)
    if (each?.isPulled)
      check(
        (each.state === 'intended') === state.pulled.waiting(each.backend).has(token),
        `${token} waits until it is claimed`,
      );
}

/** Everything that the indexes say follows from the records. */
export function checkIndexes(view: EngineView): void {
  const { state, queue } = view;
  const open = new Map<string, number>();
  const keys = new Set<string>();
  let ready = 0;
  for (const entry of state.jobs.values()) {
    const { job, ask } = entry;
    if (entry.open && usesSlot(entry.open))
      open.set(entry.open.backend, (open.get(entry.open.backend) ?? 0) + 1);
    const active = job.state === 'claimed' || job.state === 'running' || job.state === 'stale';
    check(!active || entry.open !== undefined, `${entry.uid} is ${job.state} with an open attempt`);
    check(job.state !== 'queued' || entry.open === undefined, `${entry.uid} is queued without one`);
    check(
      entry.isWaiting === (job.state === 'queued' && !entry.parked),
      `${entry.uid} is in its lane when ready`,
    );
    checkWaiting(view, entry);
    if (entry.isWaiting) ready++;
    if (ask.spec.key !== undefined && !isTerminal(job.state)) {
      check(!keys.has(ask.spec.key), `key ${ask.spec.key} belongs to one live job`);
      keys.add(ask.spec.key);
    }
    check(
      state.ended.has(entry) === (isTerminal(job.state) && !entry.open),
      `${entry.uid} is listed as ended when it is`,
    );
  }
  checkBatches(view);
  check(ready === queue.waiting.batch.jobs + queue.waiting.interactive.jobs, 'ready jobs are counted');
  for (const [name, count] of open)
    check(queue.fleet.usedSlots(name) === count, `slots of ${name} are its open attempts`);
  const pulled = [...state.open.values()].filter(({ open }) => open?.isPulled && open.state !== 'intended');
  check(due(view).length === state.open.size - pulled.length, 'every open attempt has something due');
  checkPulled(view);
}

export interface Story {
  readonly job: JobRecord;
  readonly ends: number;
  readonly redrives: number;
  /** The last attempts of lives that were over before their executor was: a redrive runs those again. */
  readonly expired: readonly number[];
  /** The attempts with an unknown outcome after which an operator ordered another one. */
  readonly retried: readonly number[];
}

/** Replays the raw log: every move legal, attempt numbers growing, tokens bound to one backend. */
export function replay(changes: readonly Change[]): Map<string, Story> {
  const stories = new Map<string, Story>();
  const attempts = new Map<string, AttemptRecord>();
  const highest = new Map<string, number>();
  const dependencies = new DependencyRules();
  for (const change of changes) {
    dependencies.take(change);
    if (change.kind === 'ask' && !stories.has(change.id)) {
      stories.set(change.id, {
        job: { state: 'queued', attempt: 0 } as JobRecord,
        ends: 0,
        redrives: 0,
        expired: [],
        retried: [],
      });
    }
    if (change.kind === 'job' && change.after)
      replayJob(stories, change.id, change.after, causeText(change.cause));
    if (change.kind === 'attempt' && change.after) replayAttempt(attempts, highest, change.id, change.after);
  }
  dependencies.checkBatches();
  return stories;
}

function replayJob(stories: Map<string, Story>, id: string, after: JobRecord, cause: string): void {
  const story = stories.get(id);
  check(story !== undefined, `${id} was asked for before it moved`);
  const from = story.job.state;
  const moved = from !== after.state;
  check(
    !moved || (JOB_TRANSITIONS[from] as readonly string[]).includes(after.state),
    `${id}: ${from} -> ${after.state}`,
  );
  check(after.attempt >= story.job.attempt, `${id}: attempt numbers only grow`);
  stories.set(id, {
    job: after,
    ends: story.ends + (moved && isTerminal(after.state) ? 1 : 0),
    redrives: story.redrives + (cause.startsWith('redrive') ? 1 : 0),
    expired: moved && endsOverdue(after) ? [...story.expired, after.attempt] : story.expired,
    retried: cause.startsWith('resolve') ? [...story.retried, after.attempt] : story.retried,
  });
}

/** The job ends at its deadline, or a while after the timeout of a try, whatever its executor says later. */
const endsOverdue = ({ state, reason, error }: JobRecord): boolean =>
  state === 'dead' && (reason === 'expired' || error?.code === 'WORKER_TIMEOUT');

function replayAttempt(
  attempts: Map<string, AttemptRecord>,
  highest: Map<string, number>,
  token: string,
  after: AttemptRecord,
): void {
  const before = attempts.get(token);
  attempts.set(token, after);
  if (!before) {
    check(after.state === 'intended', `${token} begins as an intent`);
    check(after.n > (highest.get(after.job) ?? 0), `${token}: numbers never repeat`);
    highest.set(after.job, after.n);
    return;
  }
  check(before.backend === after.backend, `${token} stays with its backend`);
  const legal = (ATTEMPT_TRANSITIONS[before.state] as readonly string[]).includes(after.state);
  check(before.state === after.state || legal, `${token}: ${before.state} -> ${after.state}`);
}

/**
 * The executors' own account: no token ran twice, and no job was started again while an earlier start was still
 * running or had succeeded, unless that executor had lost its memory in between.
 */
export function checkLedgers(
  executors: readonly Pick<FakeExecutor, 'ledger' | 'forgets' | 'info'>[],
  stories: ReadonlyMap<string, Story>,
  restoredAt: number,
): void {
  const byJob = new Map<string, (Run & { excused: boolean; paid: boolean })[]>();
  const tokens = new Set<string>();
  for (const executor of executors) {
    for (const run of executor.ledger) {
      // A restored store knows nothing of what ran after its backup.
      const isUnknown = run.startedAt < restoredAt;
      const key = `${run.owner}/${run.token}/${isUnknown}`;
      check(!tokens.has(key), `${run.token} ran once`);
      tokens.add(key);
      const runs = byJob.get(run.job) ?? [];
      runs.push({
        ...run,
        excused: executor.forgets > 0 || isUnknown,
        paid: executor.info.paid && !isUnknown,
      });
      byJob.set(run.job, runs);
    }
  }
  for (const [job, runs] of byJob) {
    runs.sort((a, b) => a.startedAt - b.startedAt);
    for (const [at, run] of runs.entries()) {
      for (const earlier of runs.slice(0, at)) {
        if (earlier.paid && earlier.outcome === 'died') checkOrdered(earlier, run, stories.get(job));
        // A store that is said to be a copy does not know the attempts of the former owner: `on_unknown` decides.
        if (earlier.excused || earlier.owner !== run.owner) continue;
        const over = earlier.endedAt !== undefined && earlier.endedAt <= run.startedAt;
        check(over, `${run.token} of ${job} started while ${earlier.token} still ran`);
        if (stories.get(job)?.expired.includes(attemptOf(earlier.token))) continue;
        check(
          earlier.outcome !== true,
          `${run.token} of ${job} started after ${earlier.token} had succeeded`,
        );
      }
    }
  }
}

/** Brain time follows a step of less than this at once. */
const SMALL_STEP_MS = 60_000;

/** A clock that is wrong for some seconds starts no job before the instant that its caller named. */
export function checkNotBefore(
  executors: readonly FakeExecutor[],
  told: ReadonlyMap<string, { readonly request: SubmitRequest }>,
  restoredAt: number,
): void {
  for (const { ledger, world } of executors) {
    for (const { job, token, startedAt } of ledger) {
      const notBefore = told.get(job)?.request.not_before;
      const startedAtTrue = world.trueTime - world.now + startedAt;
      if (startedAt < restoredAt) continue;
      const isEarly = typeof notBefore === 'number' && startedAtTrue < notBefore - SMALL_STEP_MS;
      check(!isEarly, `${token} started before its not_before`);
    }
  }
}

/** Work that costs money and may have been done is not done again by itself: a person has ordered it. */
function checkOrdered(earlier: Run, run: Run, story: Story | undefined): void {
  const ordered = story?.retried.includes(attemptOf(earlier.token)) || (story?.redrives ?? 0) > 0;
  check(ordered, `${run.token} started by itself although ${earlier.token} was paid and its outcome unknown`);
}

const attemptOf = (token: string): number => Number(token.slice(token.lastIndexOf(':') + 1));
