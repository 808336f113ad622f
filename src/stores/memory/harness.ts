/** Opens the store in memory for the conformance suite. */
import type { BlobRef } from '../../model/body.ts';
import { Gate, type Harnesses, type HarnessKit } from '../conformance/harness.ts';
import { Opened, type StoreFixture } from '../conformance/opened.ts';
import { Medium, MemoryStore } from './memory.ts';

async function memory({ env, turns, within }: HarnessKit): Promise<StoreFixture> {
  const gate = new Gate();
  const medium = new Medium();
  const { timers } = env;
  const soon = (run: () => void) => timers.soon(() => void gate.pass().then(run));
  const make = () => new MemoryStore({ ...timers, soon }, medium);
  return {
    make,
    hold: () => gate.hold(),
    // A memory store fails only when another one has opened the same medium.
    breakWrites: () => new Opened(make()).open(),
    lost: (ref) => ({ ...ref, at: 1000 }) as BlobRef,
    turns,
    within,
    remove: async () => undefined,
  };
}

export const harnesses: Harnesses = { memory };
