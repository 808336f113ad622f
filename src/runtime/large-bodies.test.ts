import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ByteRoom } from '../kit/byte-room.ts';
import type { HeldBytes, LargeValue } from '../kit/held-bytes.ts';
import { INLINE_BODY_BYTES } from '../model/body.ts';
import { LargeBodies } from './large-bodies.ts';

const BYTES = 2 ** 20;

/** Bodies of a store in which each read is noted; `fails` makes the next one fail. */
function bodiesIn(room: ByteRoom) {
  const reads: string[] = [];
  const state = { fails: false };
  const bodies = new LargeBodies(room, async (ref) => {
    reads.push((ref as { name?: string }).name ?? '');
    if (!state.fails) return Buffer.alloc(ref.bytes);
    state.fails = false;
    throw new Error('the disk');
  });
  const largeValue = (name: string): LargeValue => {
    const ref = { bytes: BYTES, name };
    return bodies.valueOf(ref) as LargeValue;
  };
  return { bodies, reads, state, largeValue };
}

test('all who read a body at one time share its bytes, which count once, until the last has released them', async () => {
  const room = new ByteRoom(BYTES);
  const { reads, largeValue } = bodiesIn(room);
  const held = await Promise.all(Array.from({ length: 100 }, () => largeValue('a').open('now')));
  assert.deepEqual([reads, room.usedBytes], [['a'], BYTES]);
  assert.ok(held.every(({ bytes }) => bytes === held[0]?.bytes));
  const [last, ...others] = held as [HeldBytes, ...HeldBytes[]];
  for (const { release } of others) release();
  others[0]?.release();
  assert.equal(room.usedBytes, BYTES);
  last.release();
  assert.equal(room.usedBytes, 0);
  (await largeValue('a').open('now')).release();
  assert.deepEqual(reads, ['a', 'a']);
});

test('a body beyond the room is refused before it is read, or waits until there is room', async () => {
  const room = new ByteRoom(BYTES);
  const { reads, largeValue } = bodiesIn(room);
  const first = await largeValue('a').open('now');
  await assert.rejects(largeValue('b').open('now'), { code: 'SERVER_BUSY', retriable: true });
  const later = largeValue('b').open('later');
  await assert.rejects(largeValue('b').open('now'), { code: 'SERVER_BUSY', retriable: true });
  assert.deepEqual(reads, ['a']);
  first.release();
  (await later).release();
  assert.deepEqual([reads, room.usedBytes], [['a', 'b'], 0]);
});

test('a body that cannot be read takes no room, and is read again by the next reader', async () => {
  const room = new ByteRoom(BYTES);
  const { reads, state, largeValue } = bodiesIn(room);
  for (const when of ['now', 'later'] as const) {
    state.fails = true;
    await Promise.all([
      assert.rejects(largeValue('a').open(when), /the disk/),
      assert.rejects(largeValue('a').open(when), /the disk/),
    ]);
    assert.equal(room.usedBytes, 0);
  }
  (await largeValue('a').open('now')).release();
  assert.deepEqual(reads, ['a', 'a', 'a']);
});

test('small bodies are not shared', () => {
  const { bodies } = bodiesIn(new ByteRoom(BYTES));
  assert.equal(bodies.valueOf('"inline"'), undefined);
  assert.equal(bodies.valueOf({ bytes: INLINE_BODY_BYTES + 1 }), undefined);
  assert.equal(bodies.valueOf(undefined), undefined);
});
