import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LineFeed } from './line-feed.ts';
import { textLines } from './text-lines.ts';

async function* of(...pieces: string[][]): AsyncGenerator<readonly string[]> {
  yield* pieces;
}

const never = new AbortController().signal;

test('lines without an answer are given out again, and the source goes on behind them', async () => {
  const feed = new LineFeed(of(['a', 'b'], ['c']), 2);
  assert.equal(await feed.piece(never), 'a\nb\n');
  assert.equal(feed.answer(), 1);
  assert.ok(feed.isBehind);
  feed.rewind();
  assert.equal(await feed.piece(never), 'b\nc\n');
  assert.deepEqual([feed.answer(), feed.answer(), feed.answer()], [2, 3, undefined]);
  assert.equal(await feed.piece(never), undefined);
  assert.ok(feed.isDone);
});

test('no more lines are taken from the source than may be unanswered, until answers come', async () => {
  const feed = new LineFeed(of(['a'], ['b'], ['c']), 2);
  assert.equal(await feed.piece(never), 'a\nb\n');
  const next = feed.piece(never);
  feed.answer();
  assert.equal(await next, 'c\n');
});

test('a line that an aborted piece waited for is not lost', async () => {
  const line = Promise.withResolvers<readonly string[]>();
  const feed = new LineFeed(
    (async function* () {
      yield await line.promise;
    })(),
  );
  const over = new AbortController();
  const first = feed.piece(over.signal);
  over.abort();
  feed.rewind();
  const second = feed.piece(never);
  line.resolve(['late']);
  assert.deepEqual([await first, await second], [undefined, 'late\n']);
});

test('lines of a body are whole, however it is cut into pieces; the rest of a broken one is dropped', async () => {
  const bytes = Buffer.from('{"\u00e9":1}\nsecond\n\nthird\nhalf');
  for (const size of [1, 2, 5, 100]) {
    const pieces = Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) =>
      bytes.subarray(at * size, (at + 1) * size),
    );
    const lines: string[] = [];
    for await (const some of textLines(
      (async function* () {
        yield* pieces;
      })(),
    ))
      lines.push(...some);
    assert.deepEqual(lines, ['{"\u00e9":1}', 'second', '', 'third']);
  }
});
