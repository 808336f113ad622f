import assert from 'node:assert/strict';
import { test } from 'node:test';
import { VirtualEnv } from '../../test/flow/virtual-env.ts';
import type { BackendDirectory } from './backend-directory.ts';
import { Drain } from './drain.ts';
import type { Loop } from './loop.ts';

const DRAIN_MS = 10_000;

interface Executor {
  readonly keepsResults: boolean;
  readonly node?: string;
  readonly isAway?: boolean;
  readonly state?: string;
}

/** Drains a brain with one open attempt on this executor; returns how long that takes if the attempt ends after 5 s. */
async function drainMs({ isAway = false, state = 'running', ...info }: Executor): Promise<number> {
  const virtual = new VirtualEnv();
  const env = virtual.env();
  const open = new Map([['job', { open: { backend: 'b', state } }]]);
  const engine = { state: { open, seq: 0 }, queue: { fleet: { isAway: () => isAway } } };
  const loop = { engine, ask: async () => undefined, durable: async () => undefined } as unknown as Loop;
  const backends = { get: () => ({ info: { name: 'b', ...info } }) } as unknown as BackendDirectory;
  const drain = new Drain({ env, loop, backends, atMostMs: DRAIN_MS });
  drain.begin();
  const since = virtual.now;
  env.timers.after(5000, () => open.clear());
  let tookMs = Number.NaN;
  const drained = drain.run().then(() => {
    tookMs = virtual.now - since;
  });
  // Time passes only after the drain has looked.
  await virtual.pass(0);
  await virtual.pass(DRAIN_MS);
  await drained;
  await drain.run();
  return tookMs;
}

for (const [what, executor, waits] of [
  ['whose result would be lost with the process', { keepsResults: false }, true],
  ['that only this node can read', { keepsResults: true, node: 'a' }, true],
  ['that any node can read', { keepsResults: true }, false],
  ['at another node', { keepsResults: true, node: 'a', isAway: true }, false],
  ['with an unknown outcome', { keepsResults: true, node: 'a', state: 'unknown' }, false],
] as const) {
  test(`a brain that stops ${waits ? 'waits' : 'does not wait'} for an execution ${what}`, async () => {
    assert.equal((await drainMs(executor)) >= 5000, waits);
  });
}
