/**
 * v5 is about money: prices and limits set while the brain ran, a route, attempts with bills, and charges in the index of
 * ended jobs. maker/money.ts says what has happened; this program finds all of it, and goes on where it was.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { runtimeSettings } from '../../src/app/settings.ts';
import { loadConfig } from '../../src/config/load.ts';
import { examine, OrchdError } from '../../src/index.ts';
import type { Env } from '../../src/kit/env/env.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { Orchestrator } from '../../src/runtime/orchestrator.ts';
import { routeSteps } from '../../src/runtime/route-view.ts';
import { readCharge } from '../../src/stores/journal/history/charge-rows.ts';
import { SqliteHistory } from '../../src/stores/journal/history/sqlite.ts';
import { configuredStore } from '../../src/stores/registry.ts';
import { type Behaviour, ends, RUNS, ScriptedExecutor } from './maker/executor.ts';
import { LIMITS, PRICES, SEATS, STEPS } from './maker/money.ts';
import { copyOfJournal, dumpOfTables, goldenFolder, onBothStores, START } from './v2-kit.ts';

/** A second after the last change: all windows are those in which the money was spent. */
const NOW = START + 30_000;
const USAGE = { input: 20, cacheRead: 0, cacheWrite: 0, output: 10, reasoning: 0 };

/** What was running still runs. */
const STILL: Readonly<Record<string, Behaviour>> = { 'running:1': RUNS, 'moved:2': RUNS };

async function open(t: TestContext, place: string, behaviours = STILL): Promise<Orchestrator> {
  const clock = { now: () => NOW, monotonic: () => NOW - START, isMadeUp: true } as const;
  const env: Env = { ...realEnv(), clock };
  const database = place.startsWith('mariadb:') ? `{store: mariadb, mariadb: {url: "${place}"}}` : undefined;
  const config = loadConfig(database === undefined ? {} : { text: database });
  const store = configuredStore(config).open({ env, config, folder: place });
  const backends = SEATS.map((info) => new ScriptedExecutor(info, behaviours));
  const settings = { ...runtimeSettings(config), sweepIntervalMs: 20, drainMs: 20 };
  const brain = new Orchestrator({ env, store, backends, settings });
  t.after(() => brain.stop());
  await brain.start();
  return brain;
}

const WINDOW = { from: '2027-01-01', to: '2027-02-01' };

/** Sums by a key: [attempts, cost, assumed, input with caches, output with reasoning]. */
async function sumsBy({ reads }: Orchestrator, key: string): Promise<Record<string, number[]>> {
  const { sums } = await reads.usage.sums({ ...WINDOW, by: key }, undefined);
  const counts = sums.map(({ group, attempts, cost, assumed, ...tokens }) => [
    group[0] ?? '',
    [attempts, cost, assumed, tokens.input + tokens.cacheRead, tokens.output + tokens.reasoning],
  ]);
  return Object.fromEntries(counts);
}

const SUMS = {
  model: {
    big: [6, 738, 314, 102, 34],
    odd: [1, 40, 0, 0, 40],
    ours: [1, 0, 0, 9, 5],
    small: [2, 54, 54, 0, 0],
  },
  principal: {
    ann: [3, 289, 37, 70, 20],
    bob: [5, 157, 17, 29, 53],
    carl: [1, 72, 0, 12, 6],
    dora: [1, 314, 314, 0, 0],
  },
  route: { '': [9, 760, 368, 99, 73], best: [1, 72, 0, 12, 6] },
  'tag:team': { '': [9, 700, 368, 61, 69], red: [1, 132, 0, 50, 10] },
};

/** The budgets that name their scope: [settled, reserved]. */
const budgetsOf = ({ reads }: Orchestrator): Record<string, [number, number]> =>
  Object.fromEntries(
    reads.figures().money.budgets.map(({ scope, settled, reserved }) => [scope, [settled, reserved]]),
  );

/** Open attempts: 714 of `running`, 27 of `moved`, 314 of `unknown`. */
const BUDGETS = { 'agent:default/ann': [289, 714], global: [832, 1055] };

async function assertMoney(brain: Orchestrator): Promise<void> {
  const { reads } = brain;
  assert.deepEqual(await reads.prices(), PRICES);
  assert.deepEqual(await reads.limits(), LIMITS);
  assert.deepEqual(routeSteps(await reads.route('best')), STEPS);
  for (const [key, sums] of Object.entries(SUMS)) assert.deepEqual(await sumsBy(brain, key), sums, key);
  assert.deepEqual(budgetsOf(brain), BUDGETS);
  const { reserved, parked, pausedSeats } = reads.figures().money;
  assert.deepEqual([reserved, parked, pausedSeats], [1055, 1, 1]);
  await assertJobs(brain);
}

async function assertJobs(brain: Orchestrator): Promise<void> {
  const moved = await brain.get('moved');
  assert.deepEqual(moved.route, { name: 'best', model: 'small', left: [{ model: 'big', why: 'error' }] });
  const attempts = moved.attempts.map(({ model, state, usage }) => [model, state, usage?.completion_tokens]);
  assert.deepEqual(attempts, [
    ['big', 'ended', 6],
    ['small', 'accepted', undefined],
  ]);
  const costs = await Promise.all(['told', 'assumed', 'retried', 'overrun'].map((id) => brain.get(id)));
  assert.deepEqual(
    costs.map(({ cost }) => cost?.amount),
    [132, 37, 100, 40],
  );
  assert.equal((await brain.get('unknown')).state, 'stale');
  const waits = await brain.get('waits');
  assert.deepEqual([waits.state, waits.attempts.length], ['queued', 0]);
}

onBothStores(
  'version 5: prices, limits, what was spent, the route and every bill are there, also at a second opening',
  async (t, place) => {
    const first = await open(t, place);
    await assertMoney(first);
    await first.checkpoint();
    await first.stop();
    await assertMoney(await open(t, place));
  },
  'v5',
);

onBothStores(
  'version 5: a hard budget goes on where it was, and its seat stays paused until it is resumed',
  async (t, place) => {
    const told = { ok: true, resultText: '"done"', usage: { ...USAGE, decodeMs: 1 } } as const;
    const running = { ...ends(told), isKnown: true };
    const brain = await open(t, place, { ...STILL, 'running:1': running, 'waits:1': ends(told) });
    // The open attempt is settled by what was told, which makes room for the job that waited.
    for (const id of ['running', 'waits']) assert.equal((await brain.wait(id)).state, 'succeeded');
    assert.deepEqual(budgetsOf(brain)['agent:default/ann'], [289 + 120 + 120, 0]);
    // 1500 less 529 is 971: the bound of 96 tokens of output is 1074, and that of 80 is 914.
    const ask = (max_tokens: number) =>
      brain.submit({ agent: 'ann', model: 'big', payload: { messages: [{ role: 'user', content: 'hello' }], max_tokens } });
    const isRefused = (error: unknown): boolean =>
      error instanceof OrchdError && error.details.reason === 'cost_budget';
    await assert.rejects(ask(96), isRefused);
    await brain.wait((await ask(80)).job_id);
    assert.deepEqual(await brain.prices.resumeSeat('loose', 'root'), true);
    assert.equal(brain.reads.figures().money.pausedSeats, 0);
  },
  'v5',
);

test('version 5: the doctor finds the journal healthy, before and after this program has used it', async (t) => {
  const folder = copyOfJournal('v5');
  const { disk } = realEnv();
  const damage = async () => (await examine(disk, folder)).findings.filter(({ verdict }) => verdict === 'bad');
  assert.deepEqual(await damage(), []);
  const brain = await open(t, folder);
  await brain.checkpoint();
  await brain.stop();
  assert.deepEqual(await damage(), []);
});

test('version 5: the data hold the records of money, and both stores hold the same charges', () => {
  const dump = dumpOfTables('v5');
  for (const kind of ['prices', 'limits', 'route', 'spent']) assert.match(dump, new RegExp(`^\\('${kind}', '`, 'm'));
  const index = new SqliteHistory(join(copyOfJournal('v5'), 'history.sqlite'), 'read');
  index.open();
  const charges = index.charges({ from: 0, to: NOW }, undefined, 100).map(readCharge);
  index.close();
  const rows = [...dump.matchAll(/^\((\d+), '([^']+)', .* (\d+), '\w+', '(\w+)', (\d+), \d+, \d+, /gm)];
  assert.deepEqual(
    charges.map(({ at, token, ms, basis, cost }) => [at, token, ms, basis, cost]),
    rows.map(([, at, token, ms, basis, cost]) => [Number(at), token, Number(ms), basis, Number(cost)]),
  );
  assert.equal(charges.length, 10);
  const log = readFileSync(join(goldenFolder('v5'), 'journal/log/0000000000000001.log'), 'utf8');
  assert.match(log, /\["attempt","told:1",\{"v":2,/);
});
