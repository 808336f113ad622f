/** Events of the brain itself: its opening, ticks of the clock, a full disk, and jobs that may leave memory. */
import type { Disagreement } from '../../model/disagreement.ts';
import type { Reconciled } from '../../model/reconciled.ts';
import { BRAIN_ID, type BrainRecord } from '../../model/records.ts';
import { purgeBatches } from '../admission/batch.ts';
import { expireLeases } from '../admission/lease.ts';
import { openLimits } from '../admission/quota.ts';
import { expireJobs } from '../attempts/expiry.ts';
import { takeBackForbidden } from '../attempts/forbidden.ts';
import { setReachable } from '../attempts/foreign.ts';
import { expireConsumers, forgetSilent, openPools, removeConsumers } from '../attempts/presence.ts';
import { priceBookOf } from '../money/prices.ts';
import { loadDemand } from '../workers/forecast.ts';
import { upkeep } from '../workers/upkeep.ts';
import { reclaimAway } from './backends.ts';
import { moveInstants } from './clock-step.ts';
import type { EngineTurn, Handlers } from './handler.ts';

export type BrainEvent =
  /** A brain starts on this store. */
  | OpenEvent
  /** Jobs that ended before `endedBefore` will be purged; their attempt numbers, up to `attemptFloor`, may not be used again. */
  | { readonly type: 'purge'; readonly attemptFloor: number; readonly endedBefore: number }
  | { readonly type: 'tick' }
  | { readonly type: 'disagreement'; readonly found: Disagreement }
  /** A backend was reconciled: what was found is kept in the audit trail. */
  | ({ readonly type: 'reconciled' } & Omit<Reconciled, 'at'>)
  /** Nothing is purged until a brain has run for so long. */
  | { readonly type: 'rest-purge'; readonly restMs: number }
  /** Brain time was set forward by so much or, with a negative number, back: see clock-step.ts. */
  | { readonly type: 'clock-step'; readonly byMs: number }
  /** The disk of the store is full, or has room again. */
  | { readonly type: 'space'; readonly full: boolean }
  /** The process shuts down: no job is started from now on. */
  | { readonly type: 'pause' }
  /** These ended jobs are in the history, in the version of change `seq`. */
  | { readonly type: 'indexed'; readonly uids: readonly { readonly uid: string; readonly seq: number }[] };

export interface OpenEvent {
  readonly type: 'open';
  /** Used if the store has no owner yet, and for a copy. */
  readonly owner: string;
  /** Made at random for this opening. */
  readonly nonce?: string;
  /** The store is a copy, or older than what executors have seen: it goes on under an owner of its own. */
  readonly isCopy?: boolean;
}

/** Workers come and go under new names. */
const MAX_DISAGREEMENTS = 100;

/** How many openings a store remembers. */
const MAX_OPENINGS = 100;

function opened(known: BrainRecord | undefined, { owner, nonce, isCopy }: OpenEvent): BrainRecord {
  const opening = nonce === undefined ? {} : { nonce };
  if (!known) return { v: 1, owner, epoch: 1, ...opening, attemptFloor: 0 };
  const { nonce: lastNonce, openings = [], ...kept } = known;
  const epoch = known.epoch + 1;
  const { disagreements: _, ...copied } = kept;
  if (isCopy) return { ...copied, owner, firstOwner: known.firstOwner ?? known.owner, epoch, ...opening };
  const last = { epoch: known.epoch, nonce: lastNonce };
  return { ...kept, epoch, ...opening, openings: [last, ...openings].slice(0, MAX_OPENINGS) };
}

/** Names an executor memory that no executor has. */
const NO_REGISTRY = 'copied';

/**
 * The open attempts of a copy were started under another owner. Executors do not know them under the new one, and that
 * must not count as proof that they did not run: `on_unknown` decides.
 */
function disownAttempts(turn: EngineTurn): void {
  for (const entry of [...turn.state.open.values()]) {
    if (entry.open) turn.put('attempt', entry.token, { ...entry.open, registry: NO_REGISTRY }, 'copied');
  }
}

export const brain = {
  open: (turn, event) => {
    turn.put('brain', BRAIN_ID, opened(turn.state.brain, event), 'open');
    if (event.isCopy) disownAttempts(turn);
    if (event.isCopy) removeConsumers(turn);
    turn.state.leases.renewAll(turn.now);
    turn.state.pools.openedAt = turn.now;
    turn.adoptPolicy();
    openPools(turn);
    openLimits(turn);
    // The rules may be others than those of the former brain.
    takeBackForbidden(turn, turn.state.pulled.unclaimed());
    // Configured prices that are invalid stop the start, not the first attempt.
    priceBookOf(turn);
    loadDemand(turn);
  },
  purge: (turn, { attemptFloor, endedBefore }) => {
    purgeBatches(turn, endedBefore);
    forgetSilent(turn);
    const { brain: known } = turn.state;
    if (!known || attemptFloor <= known.attemptFloor) return;
    turn.put('brain', BRAIN_ID, { ...known, attemptFloor }, 'purge');
  },
  tick: (turn, _) => {
    expireJobs(turn);
    expireLeases(turn);
    expireConsumers(turn);
    upkeep(turn);
    reclaimAway(turn);
  },
  disagreement: (turn, { found }) => {
    const { brain: known } = turn.state;
    const { disagreements = [] } = known ?? {};
    const isKnown = disagreements.some(({ backend }) => backend === found.backend);
    if (!known || isKnown || disagreements.length >= MAX_DISAGREEMENTS) return;
    turn.put('brain', BRAIN_ID, { ...known, disagreements: [...disagreements, found] }, 'disagreement');
    if (found.isForeign) setReachable(turn, found.backend, false);
  },
  reconciled: (turn, { type: _, ...found }) => {
    const { brain: known } = turn.state;
    if (!known) return;
    const reconciled = { ...found, at: turn.now };
    turn.put('brain', BRAIN_ID, { ...known, reconciled }, 'reconciled');
  },
  'rest-purge': (turn, { restMs }) => {
    const { brain: known } = turn.state;
    if (!known) return;
    const { purgeRestMs: _, ...kept } = known;
    turn.put('brain', BRAIN_ID, restMs > 0 ? { ...kept, purgeRestMs: restMs } : kept, 'rest-purge');
  },
  'clock-step': (turn, { byMs }) => moveInstants(turn, byMs),
  space: ({ state }, { full }) => {
    state.full = full;
  },
  pause: ({ state }, _) => {
    state.paused = true;
  },
  /** An ended job leaves memory when the history has its current version. */
  indexed: ({ state }, { uids }) => {
    for (const { uid, seq } of uids) {
      const entry = state.jobs.get(uid);
      if (entry && entry.seq === seq && state.ended.has(entry)) state.forget(entry);
    }
  },
} satisfies Handlers<BrainEvent>;
