/** Events of the brain itself: its opening, ticks of the clock, a full disk, and jobs that may leave memory. */
import { BRAIN_ID } from '../../model/records.ts';
import { expireLeases } from '../admission/lease.ts';
import { openLimits } from '../admission/quota.ts';
import { expireSessions } from '../admission/session.ts';
import { expireJobs } from '../attempts/expiry.ts';
import { loadDemand } from '../workers/forecast.ts';
import { upkeep } from '../workers/upkeep.ts';
import { reclaimAway } from './backends.ts';
import type { Handlers } from './handler.ts';
import { setBack } from './set-back.ts';

export type BrainEvent =
  /** A brain starts on this store; `owner` is used only if the store has no owner yet. */
  | { readonly type: 'open'; readonly owner: string }
  /** Jobs will be purged whose attempt numbers reach up to `attemptFloor`: no such number may be used again. */
  | { readonly type: 'purge'; readonly attemptFloor: number }
  | { readonly type: 'tick' }
  /** Brain time was set back by so much: see set-back.ts. */
  | { readonly type: 'set-back'; readonly byMs: number }
  /** The disk of the store is full, or has room again. */
  | { readonly type: 'space'; readonly full: boolean }
  /** The process shuts down: no job is started from now on. */
  | { readonly type: 'pause' }
  /** These ended jobs are in the history, in the version of change `seq`. */
  | { readonly type: 'indexed'; readonly uids: readonly { readonly uid: string; readonly seq: number }[] };

export const brain = {
  open: (turn, { owner }) => {
    const { brain: known } = turn.state;
    const after = known
      ? { ...known, epoch: known.epoch + 1 }
      : { v: 1 as const, owner, epoch: 1, attemptFloor: 0 };
    turn.put('brain', BRAIN_ID, after, 'open');
    turn.state.leases.renewAll(turn.now);
    openLimits(turn);
    loadDemand(turn);
  },
  purge: (turn, { attemptFloor }) => {
    const { brain: known } = turn.state;
    if (!known || attemptFloor <= known.attemptFloor) return;
    turn.put('brain', BRAIN_ID, { ...known, attemptFloor }, 'purge');
  },
  tick: (turn, _) => {
    expireJobs(turn);
    expireLeases(turn);
    expireSessions(turn);
    upkeep(turn);
    reclaimAway(turn);
  },
  'set-back': (turn, { byMs }) => setBack(turn, byMs),
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
