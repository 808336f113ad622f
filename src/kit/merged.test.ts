import assert from 'node:assert/strict';
import { test } from 'node:test';
import { merged } from './merged.ts';

/** Yields what is put in, and counts how often it was asked. */
class Source {
  asked = 0;
  #next = Promise.withResolvers<string | undefined>();

  put(value: string | undefined): void {
    const { resolve } = this.#next;
    this.#next = Promise.withResolvers();
    resolve(value);
  }

  async *values(): AsyncGenerator<string> {
    for (;;) {
      this.asked++;
      const value = await this.#next.promise;
      if (value === undefined) return;
      yield value;
    }
  }
}

test('values come in the order in which they arrive, and the end after the last source', async () => {
  const [a, b] = [new Source(), new Source()];
  const all = merged([a.values(), b.values()]);
  const first = all.next();
  b.put('b1');
  assert.deepEqual(await first, { done: false, value: 'b1' });
  const second = all.next();
  b.put('b2');
  assert.equal((await second).value, 'b2');
  const third = all.next();
  b.put(undefined);
  a.put('a1');
  assert.equal((await third).value, 'a1');
  const last = all.next();
  a.put(undefined);
  assert.deepEqual(await last, { done: true, value: undefined });
});

test('a source is not asked before its last value was taken', async () => {
  const a = new Source();
  const all = merged([a.values()]);
  const first = all.next();
  a.put('1');
  await first;
  await new Promise(setImmediate);
  assert.equal(a.asked, 1);
  void all.next();
  await new Promise(setImmediate);
  assert.equal(a.asked, 2);
});

test('an error of one ends all, and with untilFirst the end of the first does', async () => {
  const a = new Source();
  // biome-ignore lint/correctness/useYield: it fails before it has a value
  async function* fails(): AsyncGenerator<string> {
    throw new Error('broken');
  }
  await assert.rejects(merged([a.values(), fails()]).next(), /broken/);
  const [main, other] = [new Source(), new Source()];
  const all = merged([main.values(), other.values()], { untilFirst: true });
  const first = all.next();
  other.put('o');
  assert.equal((await first).value, 'o');
  const last = all.next();
  main.put(undefined);
  assert.equal((await last).done, true);
});
