/** Promises about the kinds of records in SMALL_KINDS, which belong to no job: models, sessions, workers, limits and others. */

import assert from 'node:assert/strict';
import type { HandledRange } from '../../model/module-record.ts';
import type { ModelRegistration } from '../../model/records.ts';
import { SMALL_KINDS, tokenOf } from '../../model/records.ts';
import type { RouteStep } from '../../model/route.ts';
import { Opened, reopen, type StoreFixture } from './opened.ts';
import type { StorePromise } from './promises.ts';

export const KEPT_PROMISES: readonly StorePromise[] = [
  [
    'models, sessions, workers, limits, prices, routes, schedules, marks of modules and what was spent survive restarts and checkpoints unchanged',
    survive,
  ],
  ['a job that its route has sent on is at the same place after a restart', keepsItsPlace],
];

const model = (id: string, aliases: readonly string[]): ModelRegistration => ({
  id,
  name: `${id} ü🦊`,
  ref: `file:/models/${id}.gguf`,
  aliases,
  sizeBytes: 1,
  vramBytes: 1000,
  vramGuessed: undefined,
  contextLength: 2048,
  slots: undefined,
  sha256: undefined,
  signature: undefined,
  publicKey: undefined,
});

const MEMORY = { totalBytes: 1e9, allocatedBytes: 0, availableBytes: 1e9 };
const device = { id: 0, ...MEMORY, ok: true, reason: undefined };

function reportPool(opened: Opened, version: number): void {
  const report = {
    id: 'p',
    registry: 'r',
    version,
    region: undefined,
    labels: {},
    devices: [device],
    workers: [],
  };
  opened.step({ type: 'pool', report });
}

/** A route with every field that a step can have. */
const STEPS: readonly RouteStep[] = [
  { model: 'm', on: ['error', 'wait_ms'], waitMs: 5000, weight: 3 },
  {
    model: 'unpriced',
    on: ['time'],
    time: { from: '08:30', to: '07:00', timeZone: 'Europe/Berlin' },
    weight: 1,
  },
  { model: 'm0', on: [] },
];

/** The routes after each round of survive(), with their numbers of steps: a refused command would keep nothing. */
const ROUTES: readonly (readonly string[])[] = [
  ['best-0 3', 'changed 1'],
  ['best-1 3', 'changed 2'],
  ['best-1 3', 'best-2 3', 'changed 3'],
];

const routesOf = ({ engine }: Opened): string[] =>
  [...engine.state.tables.route.values()].map(({ id, steps }) => `${id} ${steps.length}`).sort();

const kept = ({ engine }: Opened): unknown =>
  Object.fromEntries(SMALL_KINDS.map((kind) => [kind, [...engine.state.tables[kind].entries()].sort()]));

async function survive(fixture: StoreFixture): Promise<void> {
  let opened = await Opened.on(fixture);
  for (let round = 0; round < 3; round++) {
    reportPool(opened, round + 1);
    opened.step({ type: 'register', model: model(`m${round}`, [`alias ${round}`]) });
    opened.step({ type: 'model-state', id: 'm0', state: round % 2 ? 'active' : 'retired' });
    opened.step({ type: 'budget', tenant: 'default', id: `s${round}`, tokenBudget: 100 + round });
    if (round > 0) opened.step({ type: 'forget-session', tenant: 'default', id: 's0', by: 'test' });
    opened.step({
      type: 'limits',
      limits: [
        { scope: 'global', tokenBudget: 1000 * (round + 1), costBudget: 1000, window: 'month' },
        { scope: 'agent:*', costBudget: 10, hard: true },
        { scope: 'seat:*', running: 1 },
      ],
      by: 'test',
    });
    opened.step({ type: 'prices', prices: [{ model: '*', request: 2 }], by: `op ${round}` });
    opened.step({ type: 'route', id: `best-${round}`, steps: STEPS, by: `op ${round}` });
    opened.step({ type: 'route', id: 'changed', steps: STEPS.slice(0, round + 1), by: `op ${round}` });
    if (round > 0) opened.step({ type: 'drop-route', id: 'best-0', by: 'test' });
    setSchedule(opened, `s${round}`);
    if (round > 0) opened.step({ type: 'drop-schedule', order: { ...SCHEDULED, name: 's0' } });
    opened.step({ type: 'handled', module: 'mod', handled: HANDLED.slice(0, round + 1), by: 'test' });
    opened.finish(`j${round}`, { tokens: 10 });
    opened.step({ type: 'pool-order', id: 'p', order: { is: 'drain', deadlineMs: 10 }, by: `op ${round}` });
    const before = kept(opened);
    assert.deepEqual(routesOf(opened), ROUTES[round]);
    assert.equal(opened.engine.state.tables.schedule.size, Math.max(1, round));
    if (round !== 1) await opened.store.checkpoint();
    opened = await reopen(fixture, opened);
    assert.deepEqual(kept(opened), before);
    assert.deepEqual(opened.engine.state.tables.module.get('mod')?.handled, HANDLED.slice(0, round + 1));
    assert.equal(opened.engine.state.catalog.find(`alias ${round}`)?.id, `m${round}`);
  }
  await opened.close();
}

const HANDLED: readonly HandledRange[] = [
  [0, 7],
  [9, 9],
  [12, 1_000_000],
];

const SCHEDULED = { tenant: 'default', source: 'api', by: 'test' } as const;

function setSchedule(opened: Opened, name: string): void {
  const spec = { everyMs: 1000, timeZone: 'UTC', overlap: 'skip', catchUp: 'all', request: '{}' } as const;
  opened.step({ type: 'schedule', order: { ...SCHEDULED, name, models: ['m'], spec } });
}

const FAILED = { code: 'EXECUTION_FAILED', message: 'no', retriable: true } as const;

async function keepsItsPlace(fixture: StoreFixture): Promise<void> {
  let opened = await Opened.on(fixture);
  opened.backend();
  const steps: readonly RouteStep[] = [
    { model: 'm', on: ['error'] },
    { model: 'unpriced', on: [] },
  ];
  opened.step({ type: 'route', id: 'best', steps, by: 'test' });
  const { uid } = opened.submit('j', { model: 'best' });
  opened.step({ type: 'outcome', token: tokenOf(uid, 1), outcome: { ok: false, error: FAILED } });
  const { place } = opened.job('j').job;
  assert.deepEqual([place?.at, place?.model, place?.left], [1, 'unpriced', [{ model: 'm', why: 'error' }]]);
  for (const round of ['from the changes', 'from a checkpoint']) {
    opened = await reopen(fixture, opened);
    assert.deepEqual(opened.job('j').job.place, place, round);
    assert.equal(opened.job('j').ask.route, 'best', round);
    await opened.store.checkpoint();
  }
  await opened.close();
}
