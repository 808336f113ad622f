import assert from 'node:assert/strict';
import { test } from 'node:test';
import { VirtualEnv } from '../../../test/flow/virtual-env.ts';
import { loadConfig } from '../../config/load.ts';
import { pause } from '../../kit/pause.ts';
import { OrchdError } from '../../model/errors.ts';
import type { OutboundRequest, Target } from '../../wire/outbound.ts';
import { PoolClient } from './pool-client.ts';

const HOUR_MS = 3_600_000;

/** A server at the address of the pool that answers every request as a test tells it to. */
function polled(virtual: VirtualEnv, answer: () => { status: number; body: string }) {
  const polls: number[] = [];
  const target = {
    request: async () => {
      polls.push(virtual.now);
      const { status, body } = answer();
      return { status, headers: {}, body: Buffer.from(body) };
    },
    close: () => undefined,
  } as unknown as Target;
  return { polls, target };
}

const NOT_A_POOL = { status: 200, body: '<html>hello</html>' };
const STATE = {
  status: 200,
  body: JSON.stringify({ pool_id: 'p', registry: 'r', version: 1, gpus: [], workers: [] }),
};

test('an address that never answers as a pool manager is polled less and less, and then given up', async () => {
  const virtual = new VirtualEnv();
  const { polls, target } = polled(virtual, () => NOT_A_POOL);
  let givenUp = 0;
  const giveUp = { afterMs: 120_000, run: () => void givenUp++ };
  const options = { env: virtual.env(), url: 'http://x', secret: undefined, maxAgeMs: 2000, target, giveUp };
  const client = new PoolClient({
    ...options,
    onState: () => assert.fail('it is no pool'),
    onLost: () => undefined,
  });
  await client.start();
  await virtual.pass(HOUR_MS);
  assert.equal(givenUp, 1);
  assert.ok(polls.length >= 5 && polls.length <= 20, `${polls.length} polls`);
  const last = (polls.at(-1) ?? 0) - (polls[0] ?? 0);
  assert.ok(last >= 100_000 && last <= 180_000, `the last poll came after ${last} ms`);
  await client.stop();
});

test('a manager that has answered once is asked for ever, without growing pauses', async () => {
  const virtual = new VirtualEnv();
  let answers = 1;
  const { polls, target } = polled(virtual, () => (answers-- > 0 ? STATE : NOT_A_POOL));
  const giveUp = { afterMs: 120_000, run: assert.fail };
  const options = { env: virtual.env(), url: 'http://x', secret: undefined, maxAgeMs: 2000, target, giveUp };
  const client = new PoolClient({ ...options, onState: async () => undefined, onLost: () => undefined });
  await client.start();
  await virtual.pass(300_000);
  assert.ok(polls.length > 1000, `${polls.length} polls`);
  await client.stop();
});

test('the first poll can be delayed, and the time until the next one is known', async () => {
  const virtual = new VirtualEnv();
  const { polls, target } = polled(virtual, () => STATE);
  const options = { env: virtual.env(), url: 'http://x', secret: undefined, maxAgeMs: 2000, target };
  const client = new PoolClient({
    ...options,
    delayMs: 5000,
    onState: async () => undefined,
    onLost: assert.fail,
  });
  await client.start();
  await virtual.pass(4000);
  assert.deepEqual([polls.length, client.nextPollMs], [0, 1000]);
  await virtual.pass(1500);
  assert.ok(polls.length > 0);
  await client.stop();
});

const worker = (at: number): object => ({
  id: `w${at}`,
  model_ref: 'demo:x',
  gpu: 0,
  vram_used: 1,
  status: 'starting',
  started_at: '',
});
const device = (id: number): object => ({
  id,
  total_vram: 1,
  allocated_vram: 0,
  available_vram: 1,
  workers: [],
});
const listOf = (count: number, item: (at: number) => object): object[] =>
  Array.from({ length: count }, (_, at) => item(at));

const REPORTS: readonly (readonly [what: string, fields: object, problem: RegExp | undefined])[] = [
  ['256 workers on 64 devices', { workers: listOf(256, worker), gpus: listOf(64, device) }, undefined],
  ['257 workers', { workers: listOf(257, worker) }, /refused: "workers" must not have more than 256 items/],
  ['65 devices', { gpus: listOf(65, device) }, /refused: "gpus" must not have more than 64 items/],
  ['a state without workers', { workers: undefined }, /refused: .*workers/],
];

for (const [what, fields, problem] of REPORTS) {
  test(`a report of ${what} is ${problem ? 'refused, and the pool counts as lost' : 'taken'}`, async () => {
    const virtual = new VirtualEnv();
    const state = { pool_id: 'p', registry: 'r', version: 1, gpus: [], workers: [], ...fields };
    const { target } = polled(virtual, () => ({ status: 200, body: JSON.stringify(state) }));
    const lost: string[] = [];
    let states = 0;
    const client = new PoolClient({
      env: virtual.env(),
      url: 'http://x',
      secret: undefined,
      maxAgeMs: 2000,
      target,
      onState: async () => void states++,
      onLost: (error) => lost.push(error.message),
    });
    await client.start();
    await virtual.pass(10_000);
    await client.stop();
    if (!problem) return assert.deepEqual([states > 0, lost], [true, []]);
    assert.equal(states, 0);
    assert.equal(lost.length, 1, 'it is said once');
    assert.match(lost[0] ?? '', problem);
  });
}

test('that the reports of a lost manager are refused now is said once more', async () => {
  const virtual = new VirtualEnv();
  let answer = { status: 503, body: '' };
  const { target } = polled(virtual, () => answer);
  const lost: string[] = [];
  const options = { env: virtual.env(), url: 'http://x', secret: undefined, maxAgeMs: 2000, target };
  const client = new PoolClient({
    ...options,
    onState: async () => undefined,
    onLost: (error) => lost.push(error.message),
  });
  await client.start();
  await virtual.pass(10_000);
  answer = NOT_A_POOL;
  await virtual.pass(10_000);
  await client.stop();
  assert.deepEqual(lost, [
    'the pool manager answered 503',
    'the report of the pool manager is refused: it is not JSON that can be used',
  ]);
});

/**
 * A manager in whose pool nothing changes: it holds a poll for its `wait_ms`, unless its states have no version. When it
 * becomes silent, the poll under way fails, and every other one runs into its timeout.
 */
function holding(virtual: VirtualEnv, version: number | undefined) {
  const manager = { isSilent: false, answers: [] as number[] };
  const target = {
    request: async ({ path, timeoutMs = Number.POSITIVE_INFINITY }: OutboundRequest) => {
      const heldMs = version === undefined ? 0 : Number(/wait_ms=(\d+)/.exec(path)?.[1]);
      await pause(virtual.timers, manager.isSilent ? timeoutMs : heldMs);
      if (manager.isSilent) throw new OrchdError('POOL_UNAVAILABLE');
      manager.answers.push(virtual.now);
      const state = { pool_id: 'p', registry: 'r', version, gpus: [], workers: [] };
      return { status: 200, headers: {}, body: Buffer.from(JSON.stringify(state)) };
    },
    close: () => undefined,
  } as unknown as Target;
  return { manager, target };
}

for (const version of [1, undefined]) {
  test(`[ORCH-1030] a state is asked for again before it is too old, and a manager that does not answer by then is lost (version ${version})`, async () => {
    assert.equal(loadConfig({}).pools.stateMaxAgeMs, 2000);
    assert.equal(loadConfig({ text: 'pools: { state_max_age_ms: 500 }' }).pools.stateMaxAgeMs, 500);
    const virtual = new VirtualEnv();
    const { manager, target } = holding(virtual, version);
    const lost: number[] = [];
    const client = new PoolClient({
      ...{ env: virtual.env(), url: 'http://x', secret: undefined, maxAgeMs: 2000, target },
      onState: async () => undefined,
      onLost: () => lost.push(virtual.now),
    });
    await client.start();
    await virtual.pass(10_400);
    const { answers } = manager;
    const gaps = answers.slice(1).map((at, before) => at - answers[before]!);
    assert.ok(Math.max(...gaps) < 2000, `${Math.max(...gaps)} ms between two states`);
    assert.deepEqual(lost, []);
    manager.isSilent = true;
    await virtual.pass(10_000);
    assert.deepEqual(lost, [answers.at(-1)! + 2000], 'as soon as its last state is too old, and once');
    manager.isSilent = false;
    await virtual.pass(10_000);
    assert.ok(answers.at(-1)! > virtual.now - 2000, 'it is asked again');
    assert.equal(lost.length, 1);
    await virtual.until(client.stop());
  });
}
