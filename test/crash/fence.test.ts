/** A store that is not the last to open its medium writes nothing more: the reference for all fences. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import type { StoreEvents } from '../../src/core/ports/store.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import type { Change } from '../../src/model/records.ts';
import { openInto } from '../../src/runtime/open-store.ts';
import { Medium, MemoryStore } from '../../src/stores/memory/memory.ts';
import { emptyState } from './state-hash.ts';

const brainOf = (owner: string): Change => ({
  kind: 'brain',
  id: 'brain',
  after: { v: 1, owner, epoch: 1, attemptFloor: 0 },
  cause: 'open',
});

interface Opened {
  readonly store: MemoryStore;
  readonly told: number[];
  readonly failures: Error[];
}

async function open(medium: Medium): Promise<Opened> {
  const store = new MemoryStore(realEnv().timers, medium);
  const told: number[] = [];
  const failures: Error[] = [];
  const events: StoreEvents = {
    durable: (seq) => void told.push(seq),
    failed: (error) => failures.push(error),
    indexed: () => undefined,
    space: () => undefined,
    ask: () => undefined,
  };
  await openInto(emptyState(), store, events, 0);
  return { store, told, failures };
}

test('the first opener is fenced as soon as there is a second', async () => {
  const medium = new Medium();
  const first = await open(medium);
  const second = await open(medium);
  first.store.append([brainOf('first')], 0);
  second.store.append([brainOf('second')], 0);
  for (let turns = 0; turns < 3; turns++) await turn();
  assert.deepEqual([first.told, second.told], [[], [1]]);
  assert.deepEqual(
    first.failures.map((error) => (error as { code?: string }).code),
    ['FENCED'],
  );
  assert.deepEqual(
    medium.changes.map(({ after }) => (after as { owner: string }).owner),
    ['second'],
  );
});
