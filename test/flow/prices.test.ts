/** Prices over HTTP, and the cost of a job wherever people look. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { COST, CURRENCY, JOB_ID_HEADER } from '../../src/wire/headers.ts';
import { makeToken } from '../../src/wire/tokens.ts';
import { httpBrain } from '../fakes/http-brain.ts';
import { SeededRandom } from '../fakes/world.ts';
import { CHAT, Held, post, saysWords, talk, until } from './openai-kit.ts';

const put = (url: string, body: unknown, headers: Record<string, string> = {}): Promise<Response> =>
  fetch(`${url}/v2/prices`, {
    method: 'PUT',
    headers: { 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });

const CONFIG = JSON.stringify({
  currency: 'EUR',
  prices: [{ model: 'tiny', request: 250, input: 0 }],
  orchestrator: { retry: { base_delay_ms: 1 } },
});

test('prices are those of the configuration until they are set; set ones are shown as they were written', async (t) => {
  const brain = await httpBrain({ config: CONFIG });
  t.after(() => brain.stop());
  const shown = async (): Promise<unknown> => (await fetch(`${brain.url}/v2/prices`)).json();
  assert.deepEqual(await shown(), {
    currency: 'EUR',
    prices: [{ model: 'tiny', request: 250, input: 0 }],
  });
  const price = {
    model: 'm',
    seat: 's',
    valid_from: '2026-12-01T00:00:00.000Z',
    input: 3_000_000,
    cache_read: 300_000,
    cache_write: 3_750_000,
    output: 15_000_000,
    reasoning: 15_000_001,
    image: 1,
    request: 2,
    second: 3,
    batch_percent: 50,
    message_overhead: 4,
    request_overhead: 5,
    image_tokens: 6,
  };
  const answer = await put(brain.url, { prices: [{ ...price, valid_from: '2026-12-01' }] });
  assert.equal(answer.status, 200);
  assert.deepEqual(await answer.json(), { currency: 'EUR', prices: [price] });
  assert.deepEqual(await shown(), { currency: 'EUR', prices: [price] });
});

test('a price that is negative, not finite, not whole, too large, of no time or written twice is refused, and changes nothing', async (t) => {
  const brain = await httpBrain({ config: CONFIG });
  t.after(() => brain.stop());
  const wrong: readonly (readonly [body: unknown, field: RegExp])[] = [
    [{ prices: [{ model: 'm', input: -1 }] }, /input/],
    ['{"prices":[{"model":"m","output":1e999}]}', /output/],
    ['{"prices":[{"model":"m","output":NaN}]}', /JSON/],
    [{ prices: [{ model: 'm', request: 0.5 }] }, /request/],
    [{ prices: [{ model: 'm', second: 1e16 }] }, /second/],
    [{ prices: [{ model: 'm', batch_percent: 101 }] }, /batch_percent/],
    [{ prices: [{ model: 'm', input: '3' }] }, /input/],
    [{ prices: [{ input: 3 }] }, /model/],
    [{ prices: [{ model: 'm', prize: 3 }] }, /prize/],
    [{ prices: [{ model: 'm', valid_from: '2026-02-30' }] }, /valid_from/],
    [{ prices: [{ model: 'm' }, { model: 'm' }] }, /prices\[1\]\.model: .*has two prices/],
    [{}, /prices/],
  ];
  const before = await (await fetch(`${brain.url}/v2/prices`)).text();
  for (const [body, what] of wrong) {
    const answer = await put(brain.url, body);
    const text = await answer.text();
    assert.equal(answer.status, 400, text);
    assert.match(text, /"code":"INVALID_PARAMS"/);
    assert.match(text, what);
    assert.equal(await (await fetch(`${brain.url}/v2/prices`)).text(), before);
  }
});

test('only an admin of the operator sets prices; every caller may read them', async (t) => {
  const random = new SeededRandom(3);
  const made = [
    makeToken(random, 0, 'boss', 'admin'),
    makeToken(random, 0, 'ops', 'operate'),
    makeToken(random, 0, 'lab', 'admin', 'lab'),
    makeToken(random, 0, 'eve', 'read'),
  ];
  const brain = await httpBrain({ tokens: made.map(({ entry }) => entry) });
  t.after(() => brain.stop());
  const auth = (token: string) => ({ authorization: `Bearer ${token}` });
  const writes = await Promise.all(
    made.map(async ({ token }) => (await put(brain.url, { prices: [] }, auth(token))).status),
  );
  assert.deepEqual(writes, [200, 403, 403, 403]);
  for (const { token } of made)
    assert.equal((await fetch(`${brain.url}/v2/prices`, { headers: auth(token) })).status, 200);
});

test('a job shows what it reserves while it runs, and what it has cost and why afterwards', async (t) => {
  const held = new Held();
  const { brain, job } = await talk(t, held.model, { config: CONFIG });
  await brain.orchestrator.submit({ job_id: 'a', type: 'inference', model: 'tiny', prompt: 'x' });
  await until(() => held.started.length > 0);
  const running = await job('a');
  assert.deepEqual(running.cost, { amount: 0, assumed: 0, reserved: 250 });
  assert.deepEqual(running.attempts[0]?.cost, { reserved: 250, is_bound: false });
  held.letGo();
  await brain.orchestrator.wait('a');
  const ended = await job('a');
  assert.deepEqual(ended.cost, { amount: 250, assumed: 0, reserved: 0 });
  assert.deepEqual(ended.attempts[0]?.cost, { reserved: 250, is_bound: false, amount: 250, basis: 'told' });
});

test('the end of a stream says what the job has cost, and so does the end of one that failed', async (t) => {
  const prices = [{ model: 'tiny', output: 1_000_000, request: 10 }];
  const { brain } = await talk(
    t,
    ({ prompt }) => {
      if (prompt === 'bad') throw new Error('no');
      return { text: 'x'.repeat(prompt === 'long' ? 50_000 : 1) };
    },
    { config: JSON.stringify({ prices }) },
  );
  const last = async (prompt: string): Promise<Record<string, unknown>> => {
    const task = { type: 'inference', model: 'tiny', prompt, max_tokens: 30, max_tries: 1 };
    const { events_url } = (await (await post(`${brain.url}/v2/tasks`, task)).json()) as Record<
      string,
      string
    >;
    const text = await (await fetch(brain.url + events_url)).text();
    const data = text
      .trim()
      .split('\n')
      .findLast((line) => line.startsWith('data: '))
      ?.slice(6);
    return JSON.parse(data ?? '') as Record<string, unknown>;
  };
  // The backend counts no tokens: what was reserved is assumed.
  const cost = { amount: 40, assumed: 40, reserved: 0 };
  for (const prompt of ['short', 'long', 'bad']) assert.deepEqual((await last(prompt))['cost'], cost, prompt);
});

test('an answer of /v1 that is not streamed carries its cost and the currency, a failed one too; without a price neither', async (t) => {
  const { brain } = await talk(
    t,
    (payload, context) => {
      if (payload['max_tokens'] === 1) throw new Error('no');
      return saysWords(payload, context);
    },
    { config: CONFIG },
  );
  const chat = `${brain.url}/v1/chat/completions`;
  const costOf = ({ headers }: Response): (string | null)[] => [headers.get(COST), headers.get(CURRENCY)];
  const good = await post(chat, CHAT);
  assert.equal(good.status, 200);
  assert.deepEqual(costOf(good), ['250', 'EUR']);
  const bad = await post(chat, { ...CHAT, max_tokens: 1 });
  assert.ok(bad.status >= 400);
  const tries = (await brain.orchestrator.get(bad.headers.get(JOB_ID_HEADER) ?? '')).attempts.length;
  assert.deepEqual(costOf(bad), [String(tries * 250), 'EUR'], 'every try counts');
  assert.deepEqual(costOf(await post(chat, { ...CHAT, stream: true })), [null, null]);
  assert.deepEqual(costOf(await post(chat, { ...CHAT, model: 'org/tiny' })), [null, null]);
});
