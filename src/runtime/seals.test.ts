import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Timers } from '../kit/env/env.ts';
import { realEnv } from '../kit/env/real.ts';
import { isSealed } from '../kit/seal.ts';
import { MemoryStore } from '../stores/memory/memory.ts';
import { Seals } from './seals.ts';

const OWNER = { tenant: 'default', session: 's' };

/** Seals with the turns of the event loop that they have taken. */
function seals(): { seals: Seals; turns: () => number } {
  const { timers, random } = realEnv();
  let turns = 0;
  const counted: Timers = {
    after: (ms, run) => timers.after(ms, run),
    soon: (run) => {
      turns++;
      timers.soon(run);
    },
  };
  const { keys } = new MemoryStore(timers);
  return { seals: new Seals(keys, { random, timers: counted }), turns: () => turns };
}

test('a large text is sealed and opened in many turns of the event loop, a small one in none of its own', async () => {
  const { seals: made, turns } = seals();
  const small = await made.seal('"small"', OWNER);
  assert.equal(await made.open(small), '"small"');
  assert.equal(turns(), 0);
  const text = 'x'.repeat(16e6);
  const sealed = await made.seal(text, OWNER);
  const sealing = turns();
  assert.ok(isSealed(sealed) && sealing >= 30, `${sealing} turns`);
  assert.ok((await made.open(sealed)) === text);
  const opening = turns() - sealing;
  assert.ok(opening >= 70, `${opening} turns`);
  assert.ok((await made.openBytes(Buffer.from(sealed))).equals(Buffer.from(text)));
  assert.equal(turns() - sealing - opening, opening);
});
