/** Opens a store and restores the engine's state from it. */
import type { Recovered, Store, StoreEvents } from '../core/ports/store.ts';
import { Restore } from '../core/restore.ts';
import type { State } from '../core/state/state.ts';

export async function openInto(
  state: State,
  store: Store,
  events: StoreEvents,
  now: number,
): Promise<Recovered> {
  const restore = new Restore(state, now);
  const recovered = await store.open(events, now, restore);
  restore.finish(recovered);
  return recovered;
}
