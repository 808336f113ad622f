import assert from 'node:assert/strict';
import { test } from 'node:test';
import { VirtualEnv } from '../../test/flow/virtual-env.ts';
import { poll } from './poll.ts';

const TIMES = { everyMs: 100, atMostMs: 250 };

/** The times at which `look` was called, and the result of the poll. */
async function looksOf(find: (looks: number) => string | undefined) {
  const virtual = new VirtualEnv();
  const begun = virtual.now;
  const at: number[] = [];
  const found = poll(virtual, TIMES, () => {
    at.push(virtual.now - begun);
    return find(at.length);
  });
  found.catch(() => undefined);
  await virtual.pass(0);
  await virtual.pass(1000);
  return { at, found: await found };
}

test('poll looks at once, and stops once it has found a value', async () => {
  assert.deepEqual(await looksOf(() => 'here'), { at: [0], found: 'here' });
  assert.deepEqual(await looksOf((looks) => (looks === 3 ? 'here' : undefined)), {
    at: [0, 100, 200],
    found: 'here',
  });
});

test('poll looks a last time when the time is over, then gives up', async () => {
  assert.deepEqual(await looksOf(() => undefined), { at: [0, 100, 200, 250], found: undefined });
});

test('an error of `look` ends the poll', async () => {
  await assert.rejects(
    looksOf(() => {
      throw new Error('no');
    }),
    new Error('no'),
  );
});
