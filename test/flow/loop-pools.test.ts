/** No report of a pool manager keeps the event loop of the brain busy for more than 50 ms. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HttpPoolManagers } from '../../src/backends/pool/managers.ts';
import { PoolHosts } from '../../src/backends/pool/pool-hosts.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { MAX_POOL_WORKERS } from '../../src/model/pool-wire.ts';
import { httpBrain } from '../fakes/http-brain.ts';
import { largePool } from '../fakes/large-pool.ts';
import { LoopClock } from '../fakes/loop-clock.ts';
import { tempFolder } from './flow-kit.ts';

const MAX_TURN_MS = 50;

for (const workers of ['ready', 'starting', 'draining', 'failed'] as const)
  test(`a report of as many ${workers} workers as a pool may have does not keep the loop busy for more than 50 ms`, {
    timeout: 120_000,
  }, async (t) => {
    const pool = await largePool();
    t.after(() => pool.stop());
    const managers = new HttpPoolManagers({
      env: realEnv(),
      logger: undefined,
      pools: [{ url: pool.url, secret: undefined }],
      maxAgeMs: 2000,
      startTimeoutMs: 1000,
      registrationHosts: new PoolHosts([]),
      allowedWorkerHosts: [],
      maxStreams: 4,
    });
    const brain = await httpBrain({ data: tempFolder(t), managers });
    t.after(() => brain.stop());
    const clock = new LoopClock();
    t.after(() => clock.stop());
    const count = Number(process.env['POOL_WORKERS'] ?? MAX_POOL_WORKERS);
    const { longestMs, said } = await clock.best(MAX_TURN_MS, async () => {
      await pool.report(count, workers);
      const [view] = await brain.orchestrator.reads.pools();
      assert.equal(view?.workers.length, count);
      // All of them are gone again.
      await pool.report(0);
      await brain.orchestrator.reads.pools();
    });
    t.diagnostic(said);
    assert.ok(longestMs <= MAX_TURN_MS, said);
  });
