/** How the jobs that a job waits for have ended, from memory and history. */
import type { KnownEnds } from '../core/attempts/dependencies.ts';
import type { EndedJob } from '../core/ports/store.ts';
import type { State } from '../core/state/state.ts';
import type { Timers } from '../kit/env/env.ts';
import { nextTurn } from '../kit/slices.ts';
import type { AskRecord } from '../model/records.ts';
import { uidOf } from '../model/records.ts';
import type { EndState } from '../model/states.ts';

/** Lookups in one turn of the event loop: some stores read in the thread of the loop. */
const LOOKUPS_PER_TURN = 100;

export interface KnownEndsParts {
  readonly state: State;
  readonly timers: Timers;
  /** Reads an ended job that has left memory. */
  readonly find: (uid: string) => Promise<EndedJob | undefined>;
}

export async function knownEnds(
  { state, timers, find }: KnownEndsParts,
  { tenant, spec }: Pick<AskRecord, 'tenant' | 'spec'>,
): Promise<KnownEnds | undefined> {
  if (!spec.after) return undefined;
  const ends = new Map<string, EndState | 'in memory'>();
  const absent: string[] = [];
  for (const id of spec.after) {
    const uid = uidOf(tenant, id);
    if (state.jobs.has(uid)) ends.set(uid, 'in memory');
    else absent.push(uid);
  }
  for (let from = 0; from < absent.length; from += LOOKUPS_PER_TURN) {
    if (from > 0) await nextTurn(timers);
    const uids = absent.slice(from, from + LOOKUPS_PER_TURN);
    const found = await Promise.all(uids.map(find));
    for (const [at, uid] of uids.entries()) {
      const job = found[at];
      if (job) ends.set(uid, job.job.state as EndState);
    }
  }
  return ends;
}
