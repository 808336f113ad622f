/**
 * The happenings of v5: prices and limits set while the brain runs, a route, and attempts whose bills are open, told,
 * assumed or nothing. Two runs of a brain, the same on every store.
 */
import type { Backend, UsedTokens } from '../../../src/core/ports/backend.ts';
import type { SubmitRequest } from '../../../src/index.ts';
import { errorInfo } from '../../../src/model/errors.ts';
import { type Behaviour, ends, IS_FORGOTTEN, RUNS } from './executor.ts';
import { type Stage, submit } from './script.ts';
import { START } from './still-world.ts';

const used = (input: number, cacheRead: number, output: number, reasoning: number): UsedTokens => ({
  ...{ input, cacheRead, cacheWrite: 0, output, reasoning },
  decodeMs: 100,
});

const tells = (usage: UsedTokens): Behaviour => ends({ ok: true, resultText: '"done"', usage });
const failsWith = (usage: UsedTokens): Behaviour =>
  ends({ ok: false, error: { ...errorInfo('EXECUTION_FAILED', 'a hiccup'), retriable: true }, usage });

/** By token; every other attempt succeeds at once, and its provider does not say what it used. */
export const MONEY_BEHAVIOURS: Readonly<Record<string, Behaviour>> = {
  'told:1': tells(used(30, 20, 8, 2)),
  'retried:1': failsWith(used(10, 0, 3, 0)),
  'retried:2': tells(used(10, 0, 4, 1)),
  'unpriced:1': tells(used(9, 0, 5, 0)),
  'overrun:1': tells(used(0, 0, 40, 0)),
  'again:1': tells(used(20, 0, 10, 0)),
  'busy:1': { offer: async () => ({ is: 'busy', retryAfterMs: 50 }) },
  'moved:1': failsWith(used(12, 0, 6, 0)),
  'moved:2': RUNS,
  'unknown:1': IS_FORGOTTEN,
  'acme~given-up:1': IS_FORGOTTEN,
  'running:1': RUNS,
};

const SEAT = { kind: 'test', slots: 10, types: ['inference'], labels: {}, keepsResults: true } as const;

/** The backends as they describe themselves. */
export const SEATS: readonly Backend['info'][] = [
  { ...SEAT, name: 'dear', models: ['big'], paid: true, registry: 'dear-1' },
  { ...SEAT, name: 'cheap', models: ['small'], paid: true, registry: 'cheap-1' },
  { ...SEAT, name: 'loose', models: ['odd'], paid: true, registry: 'loose-1' },
  { ...SEAT, name: 'own', models: ['ours'], paid: false, registry: 'own-1' },
];

const DAY_MS = 86_400_000;
/** By then the outcome of an attempt that its executor has forgotten is unknown. */
const LOST_MS = 12_000;

export const PRICES = [
  { model: 'big', input: 1_000_000, cacheRead: 100_000, output: 10_000_000, messageOverhead: 0, requestOverhead: 50 },
  { model: 'big', validFrom: START + DAY_MS, input: 2_000_000, output: 20_000_000 },
  { model: 'small', output: 1_000_000, request: 7 },
  { model: 'odd', seat: 'loose', output: 1_000_000, batchPercent: 50 },
];

export const LIMITS = [
  { scope: 'global', costBudget: 2000, window: 'month', timeZone: 'Europe/Berlin' },
  { scope: 'agent:default/ann', costBudget: 1500, hard: true },
  { scope: 'agent:*', costBudget: 100_000, window: 'day', hard: true },
  { scope: 'seat:*', running: 9 },
] as const;

export const STEPS = [
  { model: 'big', on: ['error', 'wait_ms'], waitMs: 60_000 },
  { model: 'small', on: [] },
] as const;

const ask = (agent: string, model: string, max_tokens: number): SubmitRequest => ({
  agent,
  model,
  payload: { messages: [{ role: 'user', content: 'hello' }], max_tokens },
});

async function setUp({ world, brain }: Stage): Promise<void> {
  await world.settled(brain.prices.set(PRICES, 'root'));
  await world.settled(brain.limits.set(LIMITS, 'root'));
  await world.settled(brain.catalog.setRoute('best', STEPS, 'root'));
}

/** Attempts that end while the brain runs for the first time; the seat of the last one is paused. */
export async function firstSpending(stage: Stage): Promise<void> {
  await setUp(stage);
  await submit(stage, {
    told: { ...ask('ann', 'big', 20), tags: { team: 'red' }, session_id: 'talk' },
    assumed: ask('ann', 'small', 30),
    retried: ask('bob', 'big', 20),
    unpriced: ask('bob', 'ours', 20),
    overrun: ask('bob', 'odd', 10),
  });
  await stage.world.pass(5000);
  await stage.world.settled(stage.brain.checkpoint());
}

/** More attempts, some of which are open when the store is left. */
export async function secondSpending(stage: Stage): Promise<void> {
  const { world, brain } = stage;
  await submit(stage, { again: ask('ann', 'big', 20), busy: ask('bob', 'small', 10) });
  await submit(stage, { 'given-up': ask('dora', 'big', 20) }, { tenant: 'acme' });
  await world.pass(LOST_MS);
  await world.settled(brain.resolve('given-up', { as: 'failed' }, 'root', 'acme'));
  await world.settled(brain.checkpoint());
  await submit(stage, { moved: ask('carl', 'best', 20), unknown: ask('carl', 'big', 20) });
  await submit(stage, { running: ask('ann', 'big', 60) });
  await submit(stage, { waits: ask('ann', 'big', 60) });
  await world.pass(LOST_MS);
}
