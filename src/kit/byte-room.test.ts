import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ByteRoom } from './byte-room.ts';
import { ONE_TURN_BYTES } from './slices.ts';

const LARGE = 4 * ONE_TURN_BYTES;

test('requests share the room, one beyond it is refused for now, and gets in when another is released', () => {
  const room = new ByteRoom(2 * LARGE);
  const [first, second, third] = [room.enter(), room.enter(), room.enter()];
  first.grow(LARGE);
  second.grow(LARGE);
  assert.throws(() => third.grow(LARGE), { code: 'SERVER_BUSY', status: 503, retriable: true });
  first.release();
  third.grow(LARGE);
  assert.equal(room.usedBytes, 2 * LARGE);
  first.release();
  second.release();
  third.release();
  assert.equal(room.usedBytes, 0);
});

test('small ones always get in, and so does one that is alone', () => {
  const room = new ByteRoom(LARGE);
  const alone = room.enter();
  alone.grow(LARGE);
  alone.grow(LARGE);
  const small = room.enter();
  small.grow(ONE_TURN_BYTES);
  assert.throws(() => small.grow(1), { code: 'SERVER_BUSY' });
});

test('those who wait get in by turns as others release, and nobody overtakes them', async () => {
  const room = new ByteRoom(2 * LARGE);
  const first = await room.wait(2 * LARGE);
  const granted: string[] = [];
  const waiting = (['second', 'third'] as const).map(async (name) => {
    const share = await room.wait(2 * LARGE);
    granted.push(name);
    return share;
  });
  first.release();
  first.release();
  const second = await waiting[0];
  assert.deepEqual(granted, ['second']);
  assert.equal(room.usedBytes, 2 * LARGE);
  const late = room.enter();
  second?.release();
  assert.throws(() => late.grow(LARGE), { code: 'SERVER_BUSY' });
  (await waiting[1])?.release();
  assert.deepEqual(granted, ['second', 'third']);
  late.grow(LARGE);
  assert.equal(room.usedBytes, LARGE);
});
