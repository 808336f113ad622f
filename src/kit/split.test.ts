import assert from 'node:assert/strict';
import { test } from 'node:test';
import { split } from './split.ts';

interface Numbered {
  readonly n: number;
}

async function all(source: AsyncGenerator<Numbered>): Promise<number[]> {
  const found: number[] = [];
  for await (const { n } of source) found.push(n);
  return found;
}

const isEven = ({ n }: Numbered): boolean => n % 2 === 0;

async function* counted(to: number): AsyncGenerator<Numbered> {
  for (let n = 0; n < to; n++) yield { n };
}

test('each value goes into one of two streams, in order, and both end with the source', async () => {
  const { first, rest } = split(counted(5), isEven);
  assert.deepEqual(await Promise.all([all(first), all(rest)]), [
    [0, 2, 4],
    [1, 3],
  ]);
});

test('a value of one stream is had while nobody takes those of the other', async () => {
  const more = Promise.withResolvers<void>();
  async function* source(): AsyncGenerator<Numbered> {
    yield { n: 1 };
    yield { n: 2 };
    await more.promise;
    yield { n: 4 };
  }
  const { first, rest } = split(source(), isEven);
  assert.deepEqual((await first.next()).value, { n: 2 });
  more.resolve();
  assert.deepEqual((await first.next()).value, { n: 4 });
  assert.deepEqual(await all(rest), [1]);
});

test('both streams fail with the source, behind what came before', async () => {
  async function* failing(): AsyncGenerator<Numbered> {
    yield* counted(2);
    throw new Error('gone');
  }
  const { first, rest } = split(failing(), isEven);
  assert.deepEqual((await first.next()).value, { n: 0 });
  await assert.rejects(first.next(), /gone/);
  assert.deepEqual((await rest.next()).value, { n: 1 });
  await assert.rejects(rest.next(), /gone/);
});

test('a source that is stopped ends, and both streams with it', async () => {
  let isEnded = false;
  async function* endless(): AsyncGenerator<Numbered> {
    try {
      for (let n = 0; ; n++) {
        yield { n };
        await new Promise((resolve) => setImmediate(resolve));
      }
    } finally {
      isEnded = true;
    }
  }
  const { first, rest, stop } = split(endless(), isEven);
  assert.deepEqual((await first.next()).value, { n: 0 });
  stop();
  await Promise.all([all(first), all(rest)]);
  assert.ok(isEnded);
});
