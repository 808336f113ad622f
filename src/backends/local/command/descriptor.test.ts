import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CommandKit, hear, offerOf } from '../../../../test/fakes/command-kit.ts';
import { realEnv } from '../../../kit/env/real.ts';
import type { CommandBackend } from './command.ts';
import { commands } from './descriptor.ts';

test('a configured command has the bound on its output that its configuration says', async (t) => {
  const kit = new CommandKit(t);
  const [configured] = commands([
    { name: 'talker', max_output_bytes: 10, keep_output_sec: 1, types: { work: { argv: ['yes'] } } },
  ]);
  const settings = { env: realEnv(), folder: kit.folder, node: undefined, isCopy: false };
  const backend = configured?.make(settings) as CommandBackend;
  t.after(() => backend.stop());
  await backend.offer(offerOf('job:1'));
  const { outcome, text } = await hear(backend, 'job:1');
  assert.partialDeepStrictEqual(outcome, { ok: false, error: { message: 'it wrote more than 10 bytes' } });
  assert.equal(text, 'y\ny\ny\ny\ny\n');
});
