/** The brain itself: its beginning, the passing of time, the state of its disk, and what may leave memory. */
import { BRAIN_ID } from '../../model/records.ts';
import { expireLeases } from '../admission/lease.ts';
import { openLimits } from '../admission/quota.ts';
import { expireSessions } from '../admission/session.ts';
import { expireJobs } from '../attempts/expiry.ts';
import { openDemand } from '../workers/forecast.ts';
import { upkeep } from '../workers/upkeep.ts';
import { placeAway } from './backends.ts';
import type { Handlers } from './handler.ts';

export type BrainEvent =
  | { readonly type: 'open'; readonly owner: string }
  | { readonly type: 'purge'; readonly attemptFloor: number }
  | { readonly type: 'tick' }
  | { readonly type: 'space'; readonly full: boolean }
  /** Nothing new is started from now on. */
  | { readonly type: 'pause' }
  /** The history has these ended jobs as of these changes. */
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
    openDemand(turn);
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
    placeAway(turn);
  },
  space: ({ state }, { full }) => {
    state.full = full;
  },
  pause: ({ state }, _) => {
    state.paused = true;
  },
  /** Ended jobs leave memory once the history has them as they are now. */
  indexed: ({ state }, { uids }) => {
    for (const { uid, seq } of uids) {
      const entry = state.jobs.get(uid);
      if (entry && entry.seq === seq && state.ended.has(entry)) state.forget(entry);
    }
  },
} satisfies Handlers<BrainEvent>;
