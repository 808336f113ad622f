/** A brain whose backends take their time to start does nothing before it has begun. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Backend } from '../../src/core/ports/backend.ts';
import type { Env } from '../../src/kit/env/env.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { startInline, tempFolder, turns } from './flow-kit.ts';
import { Stage } from './stage.ts';

const CONFIG = JSON.stringify({ leases: { gpus: [{ index: 0, memory_mb: 1000 }] } });
const HOUR_MS = 3_600_000;

/** The real environment, a while later. */
function later(ms: number): Env {
  const env = realEnv();
  const { clock } = env;
  return {
    ...env,
    clock: { now: () => clock.now() + ms, monotonic: () => clock.monotonic() } as Env['clock'],
  };
}

/** Goes through what it has before it can be talked to. */
function slow(stage: Stage): Backend {
  return new Proxy(stage as Backend, {
    get(target, name) {
      if (name === 'start') return () => turns(200);
      const member = Reflect.get(target, name, target);
      return typeof member === 'function' ? member.bind(target) : member;
    },
  });
}

test('a lease outlives a brain that was away for longer than it, also where its backends start slowly', async (t) => {
  const data = tempFolder(t);
  const stage = new Stage();
  t.after(() => stage.endAll());
  const first = await startInline(t, { data, env: realEnv(), backends: [stage], config: CONFIG });
  const lease = await first.leases.grant({ agent: 'trainer', minMemoryMb: 800, ttlMs: 60_000 }, 'default');
  // The job has ended, and the brain stops before the history has it.
  await first.submit({ job_id: 'ended', type: 'nobody-runs-this' });
  await first.cancel('ended');
  await first.stop();
  const second = await startInline(t, { data, env: later(HOUR_MS), backends: [slow(stage)], config: CONFIG });
  const held = await second.reads.leases('default');
  assert.deepEqual(
    held.map(({ token }) => token),
    [lease.token],
  );
});
