/** Tests one ManagedWorker with real processes, a disk that can be made to fail, and counted timers. */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { Env } from '../../kit/env/env.ts';
import { realEnv } from '../../kit/env/real.ts';
import { RealDisk } from '../../kit/env/real-disk.ts';
import { createLogger } from '../../kit/logger.ts';
import { signalMarked } from '../../kit/process/marked.ts';
import type { WorkerReady } from '../../model/pool-wire.ts';
import { Outbound } from '../../wire/outbound.ts';
import { layoutOf, type ManagedWorkerRecord, markOf, recordPath } from './layout.ts';
import { ManagedWorker } from './worker.ts';
import type { WorkerContext } from './worker-context.ts';

const WHO = { owner: 'brain', epoch: 1 };
const STARTED_AT = 1;

class FailingDisk extends RealDisk {
  fails = false;

  override async rename(from: string, to: string): Promise<void> {
    if (this.fails) throw Object.assign(new Error('full'), { code: 'ENOSPC' });
    await super.rename(from, to);
  }
}

class Kit {
  readonly disk = new FailingDisk();
  readonly layout = layoutOf(fs.mkdtempSync(join(tmpdir(), 'orchd-worker-')));
  /** The number of pending timers. */
  timers = 0;
  #onChange: () => void = () => undefined;
  readonly #outbound: Outbound;
  readonly #env: Env;

  constructor(t: TestContext) {
    const real = realEnv();
    const after = (ms: number, run: () => void): (() => void) => {
      this.timers++;
      let isPending = true;
      const done = (): void => {
        if (isPending) this.timers--;
        isPending = false;
      };
      const cancel = real.timers.after(ms, () => {
        done();
        run();
      });
      return () => {
        done();
        cancel();
      };
    };
    const clock = { now: () => STARTED_AT, monotonic: real.clock.monotonic };
    this.#env = { ...real, clock, disk: this.disk, timers: { ...real.timers, after } };
    this.#outbound = new Outbound({ timers: real.timers });
    for (const folder of [this.layout.workers, this.layout.logs]) fs.mkdirSync(folder);
    t.after(() => {
      this.#outbound.close();
      signalMarked(markOf('registry', 'w'), undefined, 'SIGKILL');
      fs.rmSync(this.layout.folder, { recursive: true, force: true });
    });
  }

  worker(more: Partial<ManagedWorkerRecord> = {}): ManagedWorker {
    const order = { model_ref: 'demo:a', gpu_id: 0 };
    const record = {
      id: 'w',
      order,
      vramBytes: 1,
      secret: 's',
      argvHash: '',
      startedAt: STARTED_AT,
      ...more,
    };
    return new ManagedWorker(this.#context(), record);
  }

  onDisk(): ManagedWorkerRecord | undefined {
    const path = recordPath(this.layout, 'w');
    return fs.existsSync(path) ? JSON.parse(fs.readFileSync(path, 'utf8')) : undefined;
  }

  async until(condition: () => boolean): Promise<void> {
    while (!condition()) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#onChange = resolve;
      await promise;
    }
  }

  #context(): WorkerContext {
    return {
      env: this.#env,
      layout: this.layout,
      registry: 'registry',
      outbound: this.#outbound,
      logger: createLogger({ write: () => undefined, now: () => 0 }),
      times: {
        startTimeoutMs: 60_000,
        graceMs: 60_000,
        healthIntervalMs: 60_000,
        healthTimeoutMs: 60_000,
        healthMisses: 1000,
      },
      allowsUri: () => true,
      hasRoom: () => true,
      onChange: () => this.#onChange(),
    };
  }
}

const SLEEP = { argv: ['sleep', '60'], env: { PATH: process.env['PATH'] ?? '' } };
const READY = {
  worker_id: 'w',
  model_ref: 'demo:a',
  uri: 'http://127.0.0.1:1',
  vram_bytes: 1,
} as WorkerReady;
const TEST_TIMEOUT = { timeout: 20_000 };

test('a worker that is ended leaves no process, record or timer, in every phase', TEST_TIMEOUT, async (t) => {
  const phases: Record<string, (worker: ManagedWorker) => Promise<void> | void> = {
    'while it begins': () => undefined,
    'before it is ready': (worker) => worker.begun,
    'while it drains': async (worker) => {
      await worker.begun;
      await worker.drain(60_000, WHO);
    },
    'when it is ready': async (worker) => {
      await worker.begun;
      await worker.ready(READY);
    },
  };
  for (const [when, reach] of Object.entries(phases)) {
    const kit = new Kit(t);
    const worker = kit.worker();
    void worker.begin(SLEEP);
    await reach(worker);
    await worker.end();
    assert.deepEqual(
      [worker.gone, worker.removed, kit.onDisk(), kit.timers],
      [true, true, undefined, 0],
      when,
    );
  }
});

test('a failure that cannot be written to disk still ends the worker', TEST_TIMEOUT, async (t) => {
  const kit = new Kit(t);
  const worker = kit.worker();
  await worker.begin(SLEEP);
  kit.disk.fails = true;
  process.kill(worker.record.process?.pid as number, 'SIGKILL');
  await kit.until(() => worker.gone);
  assert.equal(worker.status, 'failed');
  assert.match(worker.view(false).error?.message ?? '', /signal SIGKILL/);
  assert.equal(kit.onDisk()?.error, undefined);
  await assert.rejects(worker.stop(), { code: 'STORE_FULL' });
  assert.equal(kit.timers, 0);
  kit.disk.fails = false;
  await worker.stop();
  await kit.until(() => worker.removed);
  assert.equal(kit.onDisk(), undefined);
});

test(
  'a stop that cannot be written to disk changes nothing; end works all the same',
  TEST_TIMEOUT,
  async (t) => {
    const kit = new Kit(t);
    const worker = kit.worker();
    await worker.begin(SLEEP);
    await worker.ready(READY);
    kit.disk.fails = true;
    await assert.rejects(worker.stop(), { code: 'STORE_FULL' });
    assert.deepEqual([worker.status, worker.gone], ['ready', false]);
    await worker.end();
    assert.deepEqual([worker.gone, worker.removed, kit.timers], [true, true, 0]);
  },
);

test('a closed worker leaves its process to the next manager, which adopts it', TEST_TIMEOUT, async (t) => {
  const kit = new Kit(t);
  const first = kit.worker();
  await first.begin(SLEEP);
  await first.close();
  assert.equal(kit.timers, 0);
  const second = kit.worker(kit.onDisk());
  await second.adopt();
  assert.deepEqual([second.status, second.gone], ['starting', false]);
  await second.ready(READY);
  assert.equal(second.status, 'ready');
  await second.end();
  const third = kit.worker({ ready: READY });
  await third.adopt();
  assert.deepEqual([third.status, third.gone], ['failed', true]);
});
