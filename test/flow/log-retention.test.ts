/** Log segments are removed once nothing needs them any more. */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { start, tempFolder } from './flow-kit.ts';

test('the log of a brain in which no job ever ends does not grow for ever', async (t) => {
  const data = tempFolder(t);
  const config = 'orchestrator: { retention: { audit_sec: 0, audit_bytes: 1 } }';
  const brain = await start(t, { data, config, backends: [] });
  const segments = (): number =>
    readdirSync(join(data, 'log')).filter((name) => name.endsWith('.log')).length;
  for (let round = 0; round < 5; round++) {
    const { token } = await brain.leases.grant({ agent: 'a', minMemoryMb: 0, ttlMs: 60_000 }, 'default');
    await brain.leases.release(token, 'default');
    await brain.checkpoint();
  }
  assert.ok(segments() <= 2, `${segments()} segments`);
});
