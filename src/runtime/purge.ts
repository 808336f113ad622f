/** Forgets jobs that ended long ago. */
import type { Store } from '../core/ports.ts';
import type { Loop } from './loop.ts';

/** At a time: what is removed at once holds up the store. */
const BATCH = 5000;

export async function purgeEnded(loop: Loop, store: Store, endedBefore: number): Promise<void> {
  while (!loop.failure) {
    const plan = await store.planPurge(endedBefore, BATCH);
    // The floor is durable before the attempts that it stands for are forgotten.
    await loop.ask({ type: 'purge', attemptFloor: plan.attemptFloor });
    await store.purge(endedBefore, BATCH);
    if (plan.jobs < BATCH) return;
  }
}
