import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SharedCall } from './shared-call.ts';

/** A call that is answered by hand. */
function callByHand(): { shared: SharedCall<number>; begun: PromiseWithResolvers<number>[] } {
  const begun: PromiseWithResolvers<number>[] = [];
  const shared = new SharedCall(() => {
    const call = Promise.withResolvers<number>();
    begun.push(call);
    return call.promise;
  });
  return { shared, begun };
}

test('all who ask while a call is under way share the next one, which begins after their request', async () => {
  const { shared, begun } = callByHand();
  const first = shared.ask();
  const others = Array.from({ length: 1000 }, () => shared.ask());
  assert.equal(begun.length, 1);
  begun[0]?.resolve(1);
  assert.equal(await first, 1);
  assert.equal(begun.length, 2);
  const late = shared.ask();
  begun[1]?.resolve(2);
  assert.deepEqual(new Set(await Promise.all(others)), new Set([2]));
  begun[2]?.resolve(3);
  assert.equal(await late, 3);
  assert.equal(begun.length, 3);
});

test('a call that fails fails for those who share it, and the next one is made all the same', async () => {
  const { shared, begun } = callByHand();
  const [first, second] = [shared.ask(), shared.ask()];
  begun[0]?.reject(new Error('no'));
  await assert.rejects(first, /no/);
  begun[1]?.resolve(2);
  assert.equal(await second, 2);
  const third = shared.ask();
  begun[2]?.resolve(3);
  assert.equal(await third, 3);
});
