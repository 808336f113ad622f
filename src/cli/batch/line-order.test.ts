import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LineOrder, lineOf } from './line-order.ts';

async function ordered(lines: readonly (number | undefined)[], maxHeldChars?: number) {
  const out: string[] = [];
  const order = new LineOrder(async (text) => void out.push(text), maxHeldChars);
  let mostHeld = 0;
  for (const line of lines) {
    await order.add(line, `\u00e9${line ?? '-'}`);
    mostHeld = Math.max(mostHeld, order.held);
  }
  const early = out.length;
  await order.end();
  return { out: out.map((text) => text.slice(1)), mostHeld, early };
}

test('what comes in order is passed on at once, and nothing is held', async () => {
  assert.deepEqual(await ordered([1, 2, 3]), { out: ['1', '2', '3'], mostHeld: 0, early: 3 });
});

test('what comes early waits for the lines before it; lines that never come hold nothing back at the end', async () => {
  assert.deepEqual(await ordered([2, 1, 4, 5, 9]), {
    out: ['1', '2', '4', '5', '9'],
    mostHeld: 3,
    early: 2,
  });
});

test('what does not fit into memory is held in a file', async () => {
  const lines = Array.from({ length: 500 }, (_, at) => 500 - at);
  const { out, mostHeld } = await ordered(lines, 100);
  assert.deepEqual(out.map(Number), lines.toReversed());
  assert.equal(mostHeld, 499);
});

test('results without a line are passed on as they come', async () => {
  assert.deepEqual((await ordered([undefined, 2, undefined, 1])).out, ['-', '-', '1', '2']);
});

test('the line is the end of the job id, for ids of this batch only', () => {
  assert.equal(lineOf('b.12', 'b'), 12);
  assert.equal(lineOf('f-1.2.3', 'f-1.2'), 3);
  for (const id of ['c.12', 'b.', 'b.0', 'b.01', 'b.1x', 'b', 'b.1.2'])
    assert.equal(lineOf(id, 'b'), undefined);
});
