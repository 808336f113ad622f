import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BodyRoom } from './body-room.ts';

test('large bodies are parsed one after another, also behind one that fails', async () => {
  const room = new BodyRoom(2 ** 20);
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
