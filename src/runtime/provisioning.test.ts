import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PoolKit } from '../../test/fakes/pool-engine.ts';
import type { EngineEvent } from '../core/engine/areas.ts';
import type { Backend } from '../core/ports/backend.ts';
import { workerInfo } from '../core/ports/pools.ts';
import { realEnv } from '../kit/env/real.ts';
import { BackendDirectory } from './backend-directory.ts';
import { EffectRunner } from './effect-runner.ts';
import { Provisioning, type ProvisioningParts } from './provisioning.ts';

/** The ways to workers beside a real engine, which hears what was posted when it is told to. */
class Ways {
  readonly kit = new PoolKit();
  readonly directory = new BackendDirectory((backend) => backend);
  readonly forgotten: string[] = [];
  readonly started: string[] = [];
  leads = true;
  readonly #posted: EngineEvent[] = [];
  readonly runner = new EffectRunner(realEnv(), { fail: (error) => assert.fail(error) });
  readonly provisioning = new Provisioning({
    runner: this.runner,
    engine: this.kit.engine,
    loop: { post: (event: EngineEvent) => this.#posted.push(event) },
    backends: this.directory,
    divergence: { answerOf: (_: string, answer: Promise<void>) => answer },
    managers: {
      forget: (name: string) => this.forgotten.push(name),
      stopWorker: async () => undefined,
      startWorker: async ({ id }: { id: string }) => {
        this.started.push(id);
        return id;
      },
    },
    mayAct: () => this.leads,
  } as unknown as ProvisioningParts);

  constructor() {
    this.kit.pool('p', [10]);
    this.kit.pool('q', [10]);
  }

  /** A pool says that it has this worker, or none. */
  say(pool: string, worker?: string): void {
    const record = { pool, device: 0, modelRef: 'demo:x', vramBytes: 1, slots: 1, contextLength: 1 };
    this.kit.pools.get(pool)?.workers.clear();
    if (worker !== undefined) this.kit.carryOut('start', worker, record as never);
    const report = this.kit.reportOf(pool);
    for (const each of report.workers) this.directory.put({ info: workerInfo(report, each) } as Backend);
    this.provisioning.reported(report);
  }

  hear(): void {
    for (const event of this.#posted.splice(0)) this.kit.step(event);
  }

  sweep(): readonly string[] {
    this.provisioning.sweep();
    return [...this.directory.values()].map(({ info }) => info.name);
  }
}

test('the way to a worker stays until the engine has heard that it is gone', () => {
  const ways = new Ways();
  ways.say('p', 'w');
  assert.deepEqual(ways.sweep(), ['p/w'], 'it is about to be shown');
  ways.hear();
  assert.deepEqual(ways.sweep(), ['p/w']);
  ways.say('p');
  assert.deepEqual(ways.sweep(), ['p/w'], 'work may be open on it');
  ways.hear();
  assert.deepEqual([ways.sweep(), ways.forgotten], [[], ['p/w']]);
});

test('one that came and went between two looks is forgotten too', () => {
  const ways = new Ways();
  ways.say('p', 'w');
  ways.say('p');
  assert.deepEqual(ways.sweep(), ['p/w']);
  ways.hear();
  assert.deepEqual([ways.sweep(), ways.forgotten], [[], ['p/w']]);
});

test('the copy of a worker of another pool has a way for as long as its pool speaks of it', () => {
  const ways = new Ways();
  ways.say('p', 'w');
  ways.say('q', 'w');
  ways.hear();
  assert.deepEqual(ways.sweep(), ['p/w', 'q/w']);
  ways.say('q');
  ways.hear();
  assert.deepEqual([ways.sweep(), ways.forgotten], [['p/w'], ['q/w']]);
  ways.say('q', 'w');
  ways.hear();
  ways.sweep();
  ways.kit.step({ type: 'pool-lost', id: 'q' });
  ways.kit.step({ type: 'pool-order', id: 'q', order: { is: 'forget' }, by: 'me' });
  assert.deepEqual(ways.sweep(), ['p/w'], 'a pool that is forgotten leaves nothing');
});

test('[NEWS-7] a brain that may have been replaced orders no workers', async (t) => {
  const ways = new Ways();
  t.after(() => ways.runner.stop());
  ways.kit.model('m');
  ways.kit.ask('j', 'm');
  assert.deepEqual(ways.kit.workers(), ['m starting']);
  const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
  ways.leads = false;
  ways.sweep();
  for (let turns = 0; turns < 5; turns++) await turn();
  assert.deepEqual(ways.started, []);
  ways.leads = true;
  ways.sweep();
  while (ways.started.length === 0) await turn();
});
