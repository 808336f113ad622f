import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PoolKit } from '../../test/fakes/pool-engine.ts';
import type { EngineEvent } from '../core/events.ts';
import type { Backend, Inspection } from '../core/ports.ts';
import { realEnv } from '../kit/env/real.ts';
import { Effects } from './effects.ts';

test('a worker that is gone does not come back by what it said before', async () => {
  const kit = new PoolKit();
  kit.pool('p', [24]);
  kit.model('m');
  kit.ask('a', 'm');
  kit.obey();
  kit.accept('a');
  kit.lose('a');
  const name = kit.workerOf('a');
  const { info } = kit.engine.state.fleet.backends.get(name)!;
  const said = Promise.withResolvers<Inspection>();
  const backend = { info, inspect: () => said.promise } as unknown as Backend;
  const posted: EngineEvent[] = [];
  const effects = new Effects({
    env: realEnv(),
    engine: kit.engine,
    loop: { post: (event: EngineEvent) => posted.push(event) } as never,
    bodies: undefined as never,
    backends: new Map([[name, backend]]),
    holderLostMs: 1000,
    onEvent: () => undefined,
  });
  effects.update(kit.job('a'));
  kit.dies('p', name.slice('p/'.length));
  assert.equal(kit.engine.state.fleet.backends.has(name), false);
  said.resolve({ registry: info.registry, rememberedSince: 0, known: new Map() });
  await said.promise;
  await new Promise((resolve) => setImmediate(resolve));
  effects.stop();
  assert.deepEqual(posted, []);
});
