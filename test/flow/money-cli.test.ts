/** Prices, costs and paused seats on the command line. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { FunctionBackend } from '../../src/backends/local/functions.ts';
import type { FollowEnd } from '../../src/core/ports/backend.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { type HttpBrain, httpBrain } from '../fakes/http-brain.ts';
import { usedTokens } from '../fakes/used-tokens.ts';
import { jsonLines, orchd, type Ran } from './cli-process.ts';
import { testFolder } from './server-process.ts';

/** A provider that says how many output tokens it has counted, whatever was asked for. */
class Provider extends FunctionBackend {
  tokens = 10;

  override async follow(...call: Parameters<FunctionBackend['follow']>): Promise<FollowEnd> {
    const end = await super.follow(...call);
    if (end.is !== 'ended' || end.outcome.ok !== true) return end;
    return { ...end, outcome: { ...end.outcome, usage: usedTokens(0, this.tokens, 1) } };
  }
}

const CONFIG = {
  currency: 'EUR',
  prices: [{ model: 'm', output: 1_000_000 }],
  limits: [{ scope: 'global', cost_budget: 1000, hard: true }],
};

interface Stage {
  readonly brain: HttpBrain;
  readonly provider: Provider;
  here(...words: string[]): Promise<Ran>;
}

async function stage(t: TestContext): Promise<Stage> {
  const types = { inference: () => ({ text: 'x' }) };
  const provider = new Provider(realEnv(), { name: 'seat', slots: 1, models: ['m'], types });
  const brain = await httpBrain({ config: JSON.stringify(CONFIG), backends: [provider] });
  t.after(() => brain.stop());
  const env = { ORCHD_URL: brain.url };
  return { brain, provider, here: (...words) => orchd(words, { env }) };
}

const ask = (job_id: string) => ({ job_id, type: 'inference', model: 'm', prompt: 'x', max_tokens: 10 });

test('a seat that bills more than its bound is paused and shown as such until an operator resumes it', async (t) => {
  const { brain, provider, here } = await stage(t);
  const { orchestrator } = brain;
  provider.tokens = 13;
  await orchestrator.submit(ask('dear'));
  await orchestrator.wait('dear');
  await orchestrator.submit(ask('next'));
  const { waiting } = await orchestrator.get('next');
  assert.deepEqual(waiting, {
    code: 'seat_paused',
    text: 'paused, since its provider has billed too much: "seat"',
  });
  const [backend] = orchestrator.reads.backends();
  assert.deepEqual([backend?.paused?.job_id, backend?.paused?.excess], ['dear', 3]);
  const status = await here('status');
  assert.match(
    status.out,
    /^seat +function +paused +0 of 1 +paused: its provider has billed more than its bound$/m,
  );
  assert.match(status.out, /^orchd resume SEAT gives jobs again/m);
  assert.match((await here('show', 'dear')).out, /0\.000013 EUR, 0\.000003 EUR more than its bound/);
  assert.match(brain.logged.join(''), /billed more than its bound: its seat is paused.*"scope":"seat:seat"/);

  const nobody = await here('resume', 'nobody');
  assert.match(nobody.err, /there is no seat "nobody"/);
  provider.tokens = 10;
  const resumed = await here('resume', 'seat');
  assert.deepEqual([resumed.code, resumed.out.trim()], [0, 'seat gets jobs again.']);
  await orchestrator.wait('next');
  assert.equal((await here('resume', 'seat')).out.trim(), 'seat was not paused.');
  assert.equal(orchestrator.reads.backends()[0]?.paused, undefined);
});

test('prices are listed, and replaced by those of a file in the currency of the server', async (t) => {
  const { brain, here } = await stage(t);
  const folder = testFolder(t);
  const file = (text: string): string => {
    const path = join(folder, 'prices.yaml');
    writeFileSync(path, text);
    return path;
  };
  const listed = await here('prices');
  assert.match(listed.out, /^m +any +- +- +- +1\.00$/m);
  assert.match(listed.out, /^Tokens: for a million of them, in EUR\.$/m);
  const before = await brain.orchestrator.reads.prices();
  for (const [text, fault] of [
    ['currency: USD\nprices: [{ model: a, input: 1 }]', /in USD, and the server counts EUR/],
    ['prices: [{ model: a, input: -1 }]', /prices.*input/],
    ['prices: [{ model: a }, { model: a }]', /has two prices/],
    ['price: []', /price/],
    ['currency: EUR', /has no list `prices`/],
  ] as const) {
    const { code, err } = await here('prices', 'set', file(text));
    assert.notEqual(code, 0, text);
    assert.match(err, fault);
    assert.deepEqual(await brain.orchestrator.reads.prices(), before);
  }
  const set = await here(
    'prices',
    'set',
    file('currency: EUR\nprices: [{ model: a, input: 2500000, request: 5 }]'),
    '--json',
  );
  const [view] = jsonLines(set.out);
  assert.deepEqual(view, { currency: 'EUR', prices: [{ model: 'a', input: 2_500_000, request: 5 }] });
  assert.match((await here('prices')).out, /^a +any +- +2\.50 +- +- +request 0\.000005 EUR$/m);
});
