import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PoolKit } from '../../test/fakes/pool-engine.ts';
import { VirtualEnv } from '../../test/flow/virtual-env.ts';
import type { EngineEvent } from '../core/engine/areas.ts';
import type { Engine } from '../core/engine/engine.ts';
import type { Backend, BackendInfo, Inspection, KillReply } from '../core/ports/backend.ts';
import { ByteRoom } from '../kit/byte-room.ts';
import type { Env } from '../kit/env/env.ts';
import { realEnv } from '../kit/env/real.ts';
import { MemoryStore } from '../stores/memory/memory.ts';
import { BackendDirectory } from './backend-directory.ts';
import { Bodies } from './bodies.ts';
import { Divergence } from './divergence.ts';
import { EffectRunner } from './effect-runner.ts';
import { type EffectLoop, Effects } from './effects.ts';
import { Outcomes } from './outcomes.ts';

const NO_CHILDREN = { below: async () => [], now: () => [] };

interface WorkerJob {
  readonly kit: PoolKit;
  readonly name: string;
  readonly info: BackendInfo;
}

/** A job that runs on a worker. */
function runningJob(): WorkerJob {
  const kit = new PoolKit();
  kit.pool('p', [24]);
  kit.model('m');
  kit.ask('a', 'm');
  kit.obey();
  kit.accept('a');
  const name = kit.workerOf('a');
  return { kit, name, info: kit.engine.queue.fleet.backends.get(name)!.info };
}

/** A job whose worker has to be asked what became of it. */
function lostJob(): WorkerJob {
  const job = runningJob();
  job.kit.lose('a');
  return job;
}

/** A loop that only notes what is posted: nothing here needs the engine to react. */
function partsFor(env: Env, posted: EngineEvent[], engine: Engine, backend: Backend) {
  const loop: EffectLoop = {
    post: (event) => posted.push(event),
    ask: async () => undefined as never,
    durable: async () => undefined,
    fail: (error) => assert.fail(error),
  };
  const bodies = new Bodies(new MemoryStore(env.timers), env, new ByteRoom(2 ** 20));
  const divergence = new Divergence({
    logger: undefined,
    isSoleWriter: true,
    fail: loop.fail,
    known: () => [],
    keep: () => undefined,
  });
  const { clock } = env;
  const runner = new EffectRunner(env, loop);
  return { env, clock, loop, bodies, divergence, runner, engine, backends: directoryOf(backend) };
}

function directoryOf(backend: Backend): BackendDirectory {
  const directory = new BackendDirectory((plain) => plain);
  directory.put(backend);
  return directory;
}

test('a worker that is gone does not come back by what it said before', async () => {
  const { kit, name, info } = lostJob();
  const said = Promise.withResolvers<Inspection>();
  const backend = { info, inspect: () => said.promise } as unknown as Backend;
  const posted: EngineEvent[] = [];
  const parts = partsFor(realEnv(), posted, kit.engine, backend);
  const effects = new Effects({
    ...parts,
    outcomes: new Outcomes({ ...parts, children: NO_CHILDREN }),
    publish: () => undefined,
    holderLostMs: 1000,
    onEvent: () => undefined,
  });
  effects.update(kit.job('a'));
  kit.dies('p', name.slice('p/'.length));
  assert.equal(kit.engine.queue.fleet.backends.has(name), false);
  said.resolve({ registry: info.registry, rememberedSince: 0, known: new Map() });
  await said.promise;
  await new Promise((resolve) => setImmediate(resolve));
  parts.runner.stop();
  assert.deepEqual(posted, []);
});

test('one question without an answer does not make a backend unreachable that has answered all the time', async () => {
  const { kit, name, info } = lostJob();
  const time = new VirtualEnv();
  let answers = true;
  let asked = 0;
  const inspect = async (): Promise<Inspection> => {
    asked++;
    if (!answers) throw new Error('no answer');
    return { registry: info.registry, rememberedSince: Number.MAX_SAFE_INTEGER, known: new Map() };
  };
  const posted: EngineEvent[] = [];
  const parts = partsFor(time.env(), posted, kit.engine, { info, inspect } as unknown as Backend);
  const effects = new Effects({
    ...parts,
    outcomes: new Outcomes({ ...parts, children: NO_CHILDREN }),
    publish: () => undefined,
    holderLostMs: 5000,
    onEvent: () => undefined,
  });
  effects.update(kit.job('a'));
  for (let second = 0; second < 60; second++) await time.pass(1000);
  assert.ok(asked > 5);
  answers = false;
  const before = asked;
  while (asked === before) await time.pass(100);
  assert.deepEqual(posted, []);
  await time.pass(20_000);
  parts.runner.stop();
  assert.deepEqual(posted[0], { type: 'reachable', name, up: false });
});

test('a backend that goes on running after a kill is ordered again after growing pauses', async () => {
  const { kit, info } = runningJob();
  kit.cancel('a');
  const time = new VirtualEnv();
  let kills = 0;
  const kill = async (): Promise<KillReply> => {
    kills++;
    return { is: 'running' };
  };
  const follow = (): Promise<never> => new Promise(() => undefined);
  const parts = partsFor(time.env(), [], kit.engine, { info, kill, follow } as unknown as Backend);
  const effects = new Effects({
    ...parts,
    outcomes: new Outcomes({ ...parts, children: NO_CHILDREN }),
    publish: () => undefined,
    holderLostMs: 5000,
    onEvent: () => undefined,
  });
  effects.update(kit.job('a'));
  for (let second = 0; second < 10; second++) await time.pass(1000);
  parts.runner.stop();
  assert.ok(kills > 5 && kills < 30, `${kills} kills`);
});
