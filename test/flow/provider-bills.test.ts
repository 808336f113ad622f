/** A brain with prices, a real gateway in a process of its own, and fake providers: what is charged is what is accounted. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { GATEWAY_PROGRAM } from '../../src/daemons/gateway/layout.ts';
import type { JobView } from '../../src/model/http/jobs.ts';
import type { Orchestrator } from '../../src/runtime/orchestrator.ts';
import { FakeAnthropic } from '../fakes/providers/anthropic.ts';
import { FakeGemini } from '../fakes/providers/gemini.ts';
import { chargeOf, type Tariff } from '../fakes/providers/ledger.ts';
import { FakeOpenAi } from '../fakes/providers/openai.ts';
import type { FakeProvider } from '../fakes/providers/provider.ts';
import type { FaultName } from '../fakes/providers/stage.ts';
import { start, turns } from './flow-kit.ts';
import { sourceOf } from './gateway-kit.ts';
import { ledgerFile } from './provider-kit.ts';

const TARIFF: Tariff = {
  plain: 3_000_000,
  cached: 300_000,
  written: 3_750_000,
  output: 15_000_000,
  reasoning: 20_000_000,
};
const PRICE = {
  model: '*',
  input: TARIFF.plain,
  cache_read: TARIFF.cached,
  cache_write: TARIFF.written,
  output: TARIFF.output,
  reasoning: TARIFF.reasoning,
  batch_percent: 50,
};
const HARD = { scope: 'global', cost_budget: 1_000_000_000, window: 'total', hard: true };

/** The modes of the seats, which are also the names of their models. */
const MODES = ['chat', 'responses', 'messages', 'batches', 'stream', 'generate'] as const;
type Mode = (typeof MODES)[number];
const DRIVER = {
  chat: 'openai',
  responses: 'openai',
  messages: 'anthropic',
  batches: 'anthropic',
  stream: 'gemini',
  generate: 'gemini',
} as const satisfies Record<Mode, string>;

interface Site {
  readonly brain: Orchestrator;
  readonly providers: Readonly<Record<Mode, FakeProvider>>;
}

async function site(t: TestContext, modes: readonly Mode[], price: object = PRICE): Promise<Site> {
  const fakes = {
    openai: new FakeOpenAi(ledgerFile(t)),
    anthropic: new FakeAnthropic(ledgerFile(t)),
    gemini: new FakeGemini(ledgerFile(t)),
  };
  for (const fake of Object.values(fakes)) {
    await fake.start();
    t.after(() => fake.stop());
  }
  const seats = modes.map((mode) => {
    const driver = DRIVER[mode];
    // What a provider keeps would be found again, where a test wants it to be lost.
    return { name: `${mode}-seat`, driver, mode, models: [mode], url: fakes[driver].url, keep: false };
  });
  const { source } = sourceOf(t, {
    config: { gateway: { bind_addr: '127.0.0.1:0', seats } },
    program: GATEWAY_PROGRAM,
  });
  const config = JSON.stringify({ prices: [price], limits: [HARD] });
  const brain = await start(t, { data: 'memory', backends: [], sources: [source], config });
  await source.firstReports();
  const providers = Object.fromEntries(MODES.map((mode) => [mode, fakes[DRIVER[mode]]]));
  return { brain, providers: providers as Record<string, FakeProvider> as Site['providers'] };
}

const THINKS: Record<Mode, object> = {
  chat: { reasoning_effort: 'low' },
  responses: { reasoning_effort: 'low' },
  messages: { thinking: { type: 'enabled', budget_tokens: 1024 } },
  batches: { thinking: { type: 'enabled', budget_tokens: 1024 } },
  stream: { reasoning_effort: 'low' },
  generate: { reasoning_effort: 'low' },
};
const payload = (more: object = {}) => ({
  messages: [{ role: 'user', content: 'Hello there' }],
  max_tokens: 2000,
  ...more,
});

async function run({ brain }: Site, mode: Mode, id: string, more: object = {}): Promise<JobView> {
  await brain.submit({ job_id: id, type: 'inference', model: mode, payload: payload(more), max_tries: 1 });
  return brain.wait(id);
}

const costIn = ({ attempts }: JobView): unknown[] => {
  const { cost } = attempts[0] ?? assert.fail();
  return [cost?.amount, cost?.basis];
};

test('every call costs what its provider bills for it: cached, written, reasoning and batched tokens once each', async (t) => {
  const made = await site(t, MODES);
  for (const mode of MODES) {
    const { ledger } = made.providers[mode];
    const before = ledger.bills.length;
    const job = await run(made, mode, mode, THINKS[mode]);
    const [bill, ...more] = ledger.bills.slice(before);
    assert.deepEqual([job.state, more], ['succeeded', []]);
    const charged = chargeOf(bill ?? assert.fail(), TARIFF, mode === 'batches' ? 50 : 100);
    assert.deepEqual(costIn(job), [charged, 'told'], mode);
    const { cost } = job.attempts[0] ?? assert.fail();
    assert.ok(cost?.is_bound && cost.reserved >= charged, `${mode}: the reservation is a bound`);
  }
});

test('without a word about its tokens a call costs what was reserved; a request that is refused costs nothing', async (t) => {
  const modes = ['chat', 'messages', 'stream'] as const;
  const made = await site(t, modes);
  for (const mode of modes) {
    const { stage, ledger } = made.providers[mode];
    const after = async (fault: FaultName): Promise<JobView> => {
      stage.fail(fault);
      return run(made, mode, `${mode}-${fault}`);
    };
    const untold = await after('no_usage');
    assert.deepEqual(costIn(untold), [untold.attempts[0]?.cost?.reserved, 'assumed'], mode);
    const bills = ledger.bills.length;
    const refused = await after('bad_request');
    assert.deepEqual([refused.state, ...costIn(refused)], ['dead', 0, 'told'], mode);
    assert.equal(ledger.bills.length, bills);
  }
});

test('a message that fails after it has begun costs what was reserved: only its first tokens were counted', async (t) => {
  const made = await site(t, ['messages']);
  made.providers.messages.stage.fail('error_later');
  const job = await run(made, 'messages', 'a');
  const [attempt] = job.attempts;
  assert.deepEqual([job.state, ...costIn(job)], ['dead', attempt?.cost?.reserved, 'assumed']);
  assert.deepEqual(attempt?.usage, {
    prompt_tokens: 20,
    completion_tokens: 1,
    cache_read_tokens: 5,
    cache_write_tokens: 2,
  });
});

test('a provider that bills for more than max_tokens is believed, and gets no other job', async (t) => {
  const free = { model: '*', input: 0, output: TARIFF.output };
  const made = await site(t, ['chat'], free);
  const job = await run(made, 'chat', 'a', { max_tokens: 1 });
  const { cost } = job.attempts[0] ?? assert.fail();
  assert.deepEqual(
    [job.state, cost],
    ['succeeded', { reserved: 15, is_bound: true, amount: 60, basis: 'told' }],
  );
  await made.brain.submit({ job_id: 'b', type: 'inference', model: 'chat', payload: payload() });
  assert.equal((await made.brain.get('b'))?.state, 'queued');
  assert.equal(made.providers.chat.generations.length, 1);
});

test('a job that a provider turns away costs nothing, and is not sent again before the wait is over', async (t) => {
  const made = await site(t, ['chat']);
  const { stage } = made.providers.chat;
  const headers = { 'x-ratelimit-remaining-tokens': '0', 'x-ratelimit-reset-tokens': '6m0s' };
  stage.fail('rate_limited', { headers });
  await made.brain.submit({ job_id: 'a', type: 'inference', model: 'chat', payload: payload() });
  const turnedAway = async () => (await made.brain.get('a'))?.attempts[0]?.outcome === 'turned_away';
  while (!(await turnedAway())) await turns();
  const job = (await made.brain.get('a')) ?? assert.fail();
  assert.deepEqual([job.state, job.tries, ...costIn(job)], ['queued', 0, 0, 'nothing']);
  assert.equal(made.providers.chat.generations.length, 1);
});

test('what nothing bounds is refused before a provider hears of it, with the field that leaves it open', async (t) => {
  const made = await site(t, ['chat']);
  const submit = (more: object) =>
    made.brain.submit({ type: 'inference', model: 'chat', payload: { ...payload(), ...more } });
  for (const [more, field] of [
    [{ max_tokens: undefined }, 'max_tokens'],
    [{ n: 2 }, 'n'],
    [{ messages: [{ role: 'user', content: [{ type: 'file', file: { file_id: 'f' } }] }] }, 'content.file'],
  ] as const)
    await assert.rejects(submit(more), (error: { code: string; details: object }) => {
      assert.deepEqual(
        [error.code, error.details],
        ['ADMISSION_REJECT', { reason: 'unbounded_cost', field }],
      );
      return true;
    });
  assert.deepEqual(made.providers.chat.asked, []);
});
