import assert from 'node:assert/strict';
import { describe, type TestContext } from 'node:test';
import type { Env } from '../../src/kit/env/env.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { type ErrorInfo, errorInfo } from '../../src/model/errors.ts';
import type { Orchestrator } from '../../src/runtime/orchestrator.ts';
import { LASTING, onStores, refusalOf, STORES, start } from './flow-kit.ts';
import { Stage } from './stage.ts';

/** The real world, but for a clock that can be put forward. */
class LaterEnv {
  laterMs = 0;
  readonly env: Env;

  constructor() {
    const real = realEnv();
    const clock = {
      now: () => real.clock.now() + this.laterMs,
      monotonic: () => real.clock.monotonic() + this.laterMs,
      isMadeUp: true as const,
    };
    this.env = { ...real, clock };
  }
}

async function begin(t: TestContext, later: LaterEnv, data: string, config = '') {
  const stage = new Stage({ slots: 10 });
  t.after(() => stage.endAll());
  const orchestrator = await start(t, { data, env: later.env, backends: [stage], config });
  return { stage, orchestrator };
}

/** Runs a job of a key to an end. */
async function fail(
  orchestrator: Orchestrator,
  stage: Stage,
  key: string,
  error: ErrorInfo,
): Promise<string> {
  const { job_id } = await orchestrator.submit({ key, max_tries: 1, force_retry: true });
  await stage.until(() => stage.runningTokens.some((token) => token.startsWith(job_id)));
  stage.end(`${job_id}:1`, { ok: false, error });
  assert.equal((await orchestrator.wait(job_id)).state, 'dead');
  return job_id;
}

const FINAL = errorInfo('EXECUTION_FAILED', 'context too long');

async function isRefusedNow(orchestrator: Orchestrator, key: string): Promise<void> {
  assert.equal((await refusalOf(() => orchestrator.submit({ key }))).details.reason, 'recent_failure');
}

describe('[FANO-3] the failure cache', () => {
  onStores(
    '[FANO-11] a key that failed for good is refused for its time, also after a restart, unless it is forced',
    LASTING,
    async (t, data) => {
      const later = new LaterEnv();
      const first = await begin(t, later, data);
      await fail(first.orchestrator, first.stage, 'k', FINAL);
      const isRefused = async (orchestrator: Orchestrator): Promise<void> => {
        const refused = await refusalOf(() => orchestrator.submit({ key: 'k' }));
        assert.deepEqual([refused.code, refused.details.reason], ['ADMISSION_REJECT', 'recent_failure']);
        const left = refused.details.retryAfterMs!;
        assert.ok(left > 0 && left <= 3_600_000 - later.laterMs, `${left} ms`);
      };
      await isRefused(first.orchestrator);
      await first.orchestrator.stop();

      const second = await begin(t, later, data);
      await isRefused(second.orchestrator);
      await second.orchestrator.checkpoint();
      await second.orchestrator.submit({ type: 'another', key: 'other' });
      await second.orchestrator.checkpoint();
      await second.orchestrator.stop();

      later.laterMs = 3_500_000;
      const third = await begin(t, later, data);
      await isRefused(third.orchestrator);
      const forced = await third.orchestrator.submit({ key: 'k', force_retry: true });
      assert.equal(forced.duplicate_of, undefined);
      await third.stage.until(() => third.stage.runningTokens.includes(`${forced.job_id}:1`));
      third.stage.end(`${forced.job_id}:1`, { ok: false, error: FINAL });
      await third.orchestrator.wait(forced.job_id);
      await isRefusedNow(third.orchestrator, 'k');
      later.laterMs = 3_500_000 + 3_600_000;
      assert.equal(
        (await third.orchestrator.submit({ key: 'k' })).duplicate_of,
        undefined,
        'its time is over',
      );
    },
  );

  onStores(
    'only final errors of the execution itself enter it: no start failure, drop, deadline or cancel',
    STORES,
    async (t, data) => {
      const config = 'orchestrator: {queue_capacity: 1, queue_policy: drop-lru}';
      const { stage, orchestrator } = await begin(t, new LaterEnv(), data, config);
      await fail(orchestrator, stage, 'may be tried again', errorInfo('WORKER_TIMEOUT'));

      stage.answer = () => ({ is: 'refused', error: errorInfo('WORKER_NOT_FOUND') });
      const unstarted = await orchestrator.submit({ key: 'start failure' });
      assert.equal((await orchestrator.wait(unstarted.job_id)).state, 'dead');
      stage.answer = () => undefined;

      const late = await orchestrator.submit({ key: 'deadline', deadline_ms: 1 });
      assert.equal((await orchestrator.wait(late.job_id)).reason, 'expired');
      const stopped = await orchestrator.submit({ key: 'cancel' });
      await orchestrator.cancel(stopped.job_id);
      assert.equal((await orchestrator.wait(stopped.job_id)).state, 'cancelled');
      const dropped = await orchestrator.submit({ key: 'drop', labels: { nobody: 'has it' } });
      await orchestrator.submit({ key: 'newer', labels: { nobody: 'has it' } });
      assert.equal((await orchestrator.wait(dropped.job_id)).reason, 'dropped');

      for (const key of ['may be tried again', 'start failure', 'deadline', 'cancel', 'drop']) {
        assert.equal((await orchestrator.submit({ key })).duplicate_of, undefined, key);
        stage.endAll();
      }
    },
  );

  onStores(
    '[FANO-11] size and time are configured: the cache keeps the keys that failed last, for that time',
    STORES,
    async (t, data) => {
      const later = new LaterEnv();
      const config = 'orchestrator: {scheduler: {failure_cache_size: 2, failure_cache_ttl: 60}}';
      const { stage, orchestrator } = await begin(t, later, data, config);
      for (const key of ['a', 'b', 'c']) await fail(orchestrator, stage, key, FINAL);
      assert.equal((await orchestrator.submit({ key: 'a' })).duplicate_of, undefined);
      await isRefusedNow(orchestrator, 'b');
      await isRefusedNow(orchestrator, 'c');
      later.laterMs = 60_000;
      assert.equal((await orchestrator.submit({ key: 'b' })).duplicate_of, undefined);
    },
  );
});
