/** The metrics of a brain that has just begun count what its ledger has: the same money and the same tokens. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { OrchdClient } from '../../src/client/client.ts';
import { type HttpBrain, httpBrain } from '../fakes/http-brain.ts';
import { MeteredProvider, type MeteredTries } from '../fakes/metered.ts';
import { until } from './cli-process.ts';
import { onStores, placed, STORES, within } from './flow-kit.ts';

/** The model `free` has no price. */
const CONFIG = `
prices:
  - {model: m, input: 3000000, cache_read: 300000, cache_write: 3750000, output: 15000001, request: 5}
  - {model: n, input: 1000000, output: 2000000}
  - {model: silent, input: 1000000, output: 2000000, request: 9}
orchestrator: {retry: {base_delay_ms: 1, max_delay_ms: 1}, scheduler: {breaker_failures: 0}}
`;

/** A seat whose provider never says what was used, so that what was reserved counts. */
const SILENT = { name: 'silent-seat', slots: 4, types: { inference: () => 'done' }, models: ['silent'] };

const JOBS: readonly [id: string, model: string, tries: MeteredTries][] = [
  ['plain', 'm', ['succeed']],
  ['twice', 'm', ['fail', 'succeed']],
  ['free', 'free', ['succeed']],
  ['silent', 'silent', ['succeed']],
  // Fails at m, and goes on to n.
  ['routed', 'best', ['fail', 'succeed']],
  ['dead', 'n', ['fail', 'fail', 'succeed']],
  ['stopped', 'm', ['hold']],
];

async function brainOn(t: TestContext, data: string, provider: MeteredProvider): Promise<HttpBrain> {
  const brain = await httpBrain(placed({ data, config: CONFIG, backends: [provider, SILENT] }));
  t.after(() => brain.stop());
  const put = await fetch(`${brain.url}/v2/catalog/routes/best`, {
    method: 'PUT',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      steps: [
        { model: 'm', on: ['error'] },
        { model: 'n', on: [] },
      ],
    }),
  });
  assert.equal(put.status, 200, await put.text());
  return brain;
}

async function spend({ orchestrator }: HttpBrain, provider: MeteredProvider): Promise<void> {
  for (const [job_id, model, tries] of JOBS)
    await orchestrator.submit({ job_id, model, payload: { tries, max_tokens: 50 }, max_tries: 2 });
  await until(() => provider.used.has('stopped:1'));
  await orchestrator.cancel('stopped');
  for (const [id] of JOBS) await within(orchestrator.wait(id));
  // A job that has left memory is read from the store when it is redriven, with the attempts that it has had.
  await until(() => orchestrator.reads.figures().jobs.dead === 0);
  await orchestrator.redrive('dead');
  await within(orchestrator.wait('dead'));
}

/** What one model has used: tokens in and out, its cost, and the part of the cost that is assumed. */
type Used = readonly [input: number, output: number, cost: number, assumed: number];

async function inLedger(client: OrchdClient): Promise<Map<string, Used>> {
  const { groups } = await client.usage({ by: ['model'] });
  return new Map(
    groups.map(({ group, input, cache_read, cache_write, output, reasoning, cost, assumed }) => [
      group['model'] ?? '',
      [input + cache_read + cache_write, output + reasoning, cost, assumed],
    ]),
  );
}

async function inMetrics(url: string, models: Iterable<string>): Promise<Map<string, Used>> {
  const text = await (await fetch(`${url}/metrics`)).text();
  const value = (series: string): number => {
    const line = text.split('\n').find((each) => each.startsWith(`${series} `));
    return Number(line?.slice(series.length) ?? 0);
  };
  const tokens = (model: string, direction: string): number =>
    value(`orchd_model_tokens_total{model_ref="${model}",direction="${direction}"}`);
  const cost = (model: string, basis: string): number =>
    value(`orchd_cost_millionths_total{model_ref="${model}",basis="${basis}"}`);
  const used = (model: string): Used => {
    const assumed = cost(model, 'assumed');
    return [tokens(model, 'in'), tokens(model, 'out'), cost(model, 'told') + assumed, assumed];
  };
  const counted = text.matchAll(/^orchd_(?:model_tokens|cost_millionths)_total\{model_ref="([^"]*)"/gm);
  const named = [...counted].map(([, model = '']) => model);
  return new Map([...new Set([...models, ...named])].sort().map((model) => [model, used(model)]));
}

onStores(
  'metrics count the cost and the tokens that the ledger has, by model, also after failures, a cancel, a route and a redrive',
  STORES,
  async (t, data) => {
    const provider = new MeteredProvider('seat', ['m', 'n', 'free']);
    const brain = await brainOn(t, data, provider);
    await spend(brain, provider);
    const told = await inLedger(new OrchdClient({ url: brain.url }));
    assert.deepEqual([...told.keys()], ['free', 'm', 'n', 'silent']);
    assert.ok((told.get('silent')?.[3] ?? 0) > 9, 'a part of the cost is assumed');
    assert.deepEqual(await inMetrics(brain.url, told.keys()), told);
  },
);
