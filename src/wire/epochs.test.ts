import assert from 'node:assert/strict';
import { test } from 'node:test';
import { commanderHeaders, Epochs } from './epochs.ts';

test('for each owner only the highest epoch seen so far may command', () => {
  const raised: unknown[] = [];
  const epochs = new Epochs([['a', { epoch: 3 }]], (owner, { epoch }) => raised.push([owner, epoch]));
  const order = (owner: string, epoch: number) => epochs.check(commanderHeaders({ owner, epoch }));
  assert.throws(() => order('a', 2), { code: 'FENCED' });
  assert.deepEqual(order('a', 3), { owner: 'a', epoch: 3, nonce: undefined });
  order('a', 5);
  order('b', 1);
  assert.throws(() => order('a', 4), { code: 'FENCED' });
  assert.deepEqual(raised, [
    ['a', 5],
    ['b', 1],
  ]);
});

test('a command without a valid owner and epoch is refused', () => {
  const epochs = new Epochs();
  for (const headers of [{}, { 'x-orchd-owner': 'a' }, commanderHeaders({ owner: '', epoch: 1 })]) {
    assert.throws(() => epochs.check(headers), { code: 'INVALID_PARAMS' });
  }
});

test('of two brains with the same epoch only the first may command: they run on two copies of one store', () => {
  const epochs = new Epochs();
  const order = (epoch: number, nonce?: string) =>
    epochs.check(commanderHeaders({ owner: 'a', epoch, nonce }));
  order(1, 'first');
  assert.throws(() => order(1, 'second'), { code: 'FENCED' });
  order(1, 'first');
  assert.deepEqual(order(1).nonce, undefined, 'a brain of an older version sends none');
  assert.equal(epochs.openingBefore('a'), undefined);
  order(2, 'second');
  assert.deepEqual(epochs.openingBefore('a'), { epoch: 1, nonce: 'first' });
});
