import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ONE_TURN_BYTES } from '../kit/slices.ts';
import { BodyRoom } from './body-room.ts';

const LARGE = 4 * ONE_TURN_BYTES;

test('bodies share the room, a body beyond it is refused for now, and gets in when another is released', () => {
  const room = new BodyRoom(2 * LARGE);
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

test('small bodies always get in, and so does one that is alone', () => {
  const room = new BodyRoom(LARGE);
  const alone = room.enter();
  alone.grow(LARGE);
  alone.grow(LARGE);
  const small = room.enter();
  small.grow(ONE_TURN_BYTES);
  assert.throws(() => small.grow(1), { code: 'SERVER_BUSY' });
});

test('large bodies are parsed one after another, also behind one that fails', async () => {
  const room = new BodyRoom(LARGE);
  const said: string[] = [];
  const parse = async (name: string): Promise<void> => {
    said.push(`${name} begins`);
    await new Promise((resolve) => setImmediate(resolve));
    said.push(`${name} ends`);
    if (name === 'first') throw new Error('not JSON');
  };
  const all = ['first', 'second', 'third'].map((name) => room.parseAlone(() => parse(name)));
  await Promise.allSettled(all);
  assert.deepEqual(
    said,
    ['first', 'second', 'third'].flatMap((name) => [`${name} begins`, `${name} ends`]),
  );
});
