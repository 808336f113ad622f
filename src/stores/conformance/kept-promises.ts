/** Promises about the kinds of records in SMALL_KINDS, which belong to no job: models, sessions, workers, limits and others. */

import assert from 'node:assert/strict';
import type { ModelRegistration } from '../../model/records.ts';
import { SMALL_KINDS } from '../../model/records.ts';
import { Opened, reopen, type StoreFixture } from './opened.ts';
import type { StorePromise } from './promises.ts';

export const KEPT_PROMISES: readonly StorePromise[] = [
  [
    'models, sessions, workers, limits, prices and what was spent survive restarts and checkpoints unchanged',
    survive,
  ],
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

const device = { id: 0, totalBytes: 1e9, availableBytes: 1e9, ok: true, reason: undefined };

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
    opened.finish(`j${round}`, { tokens: 10 });
    opened.step({ type: 'pool-order', id: 'p', order: { is: 'drain', deadlineMs: 10 }, by: `op ${round}` });
    const before = kept(opened);
    if (round !== 1) await opened.store.checkpoint();
    opened = await reopen(fixture, opened);
    assert.deepEqual(kept(opened), before);
    assert.equal(opened.engine.state.catalog.find(`alias ${round}`)?.id, `m${round}`);
  }
  await opened.close();
}
