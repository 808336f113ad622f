import assert from 'node:assert/strict';
import { test } from 'node:test';
import { makeSpoolKit } from '../../test/fakes/spool-kit.ts';
import { realHost } from '../kit/process/host.ts';
import { Actor } from './actor.ts';
import { Heartbeats } from './owner.ts';
import { presentAgents } from './presence.ts';

test('agents count with their slots while they live; one that cannot be asked for, while it is not silent', async (t) => {
  const real = realHost(Date.now);
  const foreign = { ...real.self, namespace: 'pid:[1]' };
  const kit = await makeSpoolKit(t);
  let now = 0;
  const heartbeats = new Heartbeats(() => now);
  const look = () => presentAgents(kit.spool, heartbeats);
  const agent = await Actor.open(kit.spool, 'agent', 'agent', 3);
  await Actor.open(kit.spool, 'watchdog');
  assert.deepEqual(await look(), { agents: 1, slots: 3 });
  const owner = (slots: unknown, self: object = foreign): Record<string, string> => ({
    'owner.json': JSON.stringify({ ...self, hostname: 'box', nonce: 'n', slots }),
  });
  kit.put('tmp/far', owner(2));
  kit.put('tmp/dead', owner(4, { ...real.self, start: '1' }));
  kit.put('tmp/odd', owner('many'));
  assert.deepEqual(await look(), { agents: 2, slots: 5 });
  now = kit.spool.settings.foreignLockTtlMs;
  assert.deepEqual(await look(), { agents: 1, slots: 3 }, 'the far one was silent for too long');
  await agent.close();
  assert.deepEqual(await look(), { agents: 0, slots: 0 });
});
