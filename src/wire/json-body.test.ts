import assert from 'node:assert/strict';
import { test } from 'node:test';
import { realEnv } from '../kit/env/real.ts';
import { parseLargeBody } from './json-body.ts';

const { timers } = realEnv();
const parsed = (text: string) => parseLargeBody([Buffer.from(text)], timers);
const FILLER = 'x'.repeat(200_000);

test('a body with few values is parsed in one turn up to 512 KiB, any other in slices', async () => {
  const sizeOf = async (value: unknown) => (await parsed(JSON.stringify(value))).size;
  assert.equal(await sizeOf([FILLER, 'commas,,,']), 'small');
  assert.equal(await sizeOf(FILLER.repeat(3)), 'large');
  assert.equal(await sizeOf(new Array(32_768).fill(1)), 'small');
  assert.equal(await sizeOf(new Array(32_769).fill(1)), 'large');
});

test('both ways read the same value and refuse the same', async () => {
  for (const filler of [FILLER, FILLER.repeat(3)]) {
    const value = { filler, list: [1, 'é', null, { deep: [true] }] };
    assert.deepEqual((await parsed(JSON.stringify(value))).value, value);
    const refused = (rest: string) =>
      assert.rejects(parsed(`["${filler}",${rest}]`), /__proto__|JSON|deeper/);
    await refused('{"__proto__":1}');
    await refused('{"\\u005f_proto__":1}');
    await refused('1,');
    await refused('['.repeat(65) + ']'.repeat(65));
  }
});
