/** Promises about leases. */
import assert from 'node:assert/strict';
import { Opened, reopen, type StoreFixture } from './opened.ts';
import type { StorePromise } from './promises.ts';

export const LEASE_PROMISES: readonly StorePromise[] = [
  [
    'leases survive restarts and checkpoints unchanged; one that was released or has expired stays ended',
    survive,
  ],
];

const TTL_MS = 60_000;
const SHORT = { agent: 'agent', tenant: 'default', minMemoryMb: 1, ttlMs: 1000 };

function grant(opened: Opened, token: string, agent: string): void {
  const request = { token, agent, tenant: 'default', minMemoryMb: 100, ttlMs: TTL_MS };
  opened.step({ type: 'lease', request });
}

const held = ({ engine }: Opened): unknown[] =>
  [...engine.state.leases.all()].map(({ id, record }) => [id, record]).sort();

async function survive(fixture: StoreFixture): Promise<void> {
  const settings = { devices: [{ index: 3, memoryMb: 1000 }] };
  let opened = await Opened.on(fixture, settings);
  for (const [at, agent] of ['agent', 'Agent', 'agent ', '🦊'].entries()) grant(opened, `t${at}`, agent);
  for (let round = 0; round < 3; round++) {
    const tenant = 'default';
    opened.step({ type: 'heartbeat', lease: 't1', tenant }, opened.now + TTL_MS / 2);
    opened.step({ type: 'release', lease: `t${round * 2}`, tenant });
    grant(opened, `again${round}`, 'agent');
    opened.step({ type: 'lease', request: { ...SHORT, token: `short${round}` } });
    const lapsed = { ...SHORT, token: 'renewed', minMemoryMb: round };
    opened.step({ type: 'lease', request: lapsed });
    opened.step({ type: 'tick' }, opened.now + SHORT.ttlMs);
    opened.step({ type: 'lease', request: { ...lapsed, ttlMs: TTL_MS } });
    const before = held(opened);
    assert.ok(!opened.engine.state.leases.get(`short${round}`));
    if (round !== 1) await opened.store.checkpoint();
    opened = await reopen(fixture, opened, settings);
    assert.deepEqual(held(opened), before);
    opened.step({ type: 'release', lease: 'renewed', tenant });
  }
  await opened.close();
}
