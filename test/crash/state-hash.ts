/** The recovered state of a data folder as one hash: the same whoever recovered it, and however often. */
import { State } from '../../src/core/state/state.ts';
import { RealDisk } from '../../src/kit/env/real-disk.ts';
import { stableHash } from '../../src/kit/hash.ts';
import { paths } from '../../src/stores/journal/layout.ts';
import { recover } from '../fakes/restored.ts';

export const emptyState = (): State => new State({ cancelDeadlineMs: 5000, failureCacheSize: 100 });

export async function recoveredState(data: string, now: number): Promise<State> {
  const state = emptyState();
  await recover(new RealDisk(), paths(data), state, now);
  return state;
}

/** Every record; of the brain only what an opening leaves alone. */
export function stateHash(state: State): string {
  const jobs = [...state.jobs.values()]
    .map(({ uid, ask, job, open, past, seq }) => ({ uid, ask, job, open, past: past ?? [], seq }))
    .sort((a, b) => (a.uid < b.uid ? -1 : 1));
  const attemptFloor = state.brain?.attemptFloor ?? 0;
  return stableHash({ jobs, failures: [...state.failures], attemptFloor });
}

export const recoveredHash = async (data: string, now: number): Promise<string> =>
  stateHash(await recoveredState(data, now));
