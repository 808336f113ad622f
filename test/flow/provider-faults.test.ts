/** Each driver of the gateway against each fault of a provider: the error, that nothing is sent twice, and where the key goes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { DriverName } from '../../src/model/gateway-wire.ts';
import { foreignHost } from '../fakes/providers/foreign-host.ts';
import type { FaultName } from '../fakes/providers/stage.ts';
import { ANSWER, API_DRIVERS, Call, failureOf, KEY, STREAMING, seat } from './provider-kit.ts';

/** What a call fails with, in short: the code, whether it may be retried, and why it was turned away. */
const brief = (error: Awaited<ReturnType<typeof failureOf>>): unknown[] => [
  error.code,
  error.retriable,
  error.details.turnedAway,
];

/** Faults with which the provider has accepted nothing. */
const REFUSED: [FaultName, unknown[]][] = [
  ['rate_limited', ['RATE_LIMITED', true, 'rate_limited']],
  ['quota', ['RATE_LIMITED', true, 'quota']],
  ['no_credit', ['RATE_LIMITED', true, 'quota']],
  ['overloaded', ['WORKER_BUSY', true, 'overloaded']],
  ['proxy_503', ['UNKNOWN_OUTCOME', false, undefined]],
  ['server_error', ['EXECUTION_FAILED', true, undefined]],
  ['bad_request', ['EXECUTION_FAILED', false, undefined]],
  ['not_found', ['EXECUTION_FAILED', false, undefined]],
  ['too_long', ['CONTEXT_TOO_LONG', false, undefined]],
  ['html', ['WORKER_PROTOCOL', false, undefined]],
];

for (const name of API_DRIVERS) {
  for (const [fault, expected] of REFUSED) {
    test(`${name}: "${fault}" is ${expected[0]}, and is not sent again`, async (t) => {
      const { provider, driver } = await seat(t, name);
      provider.stage.fail(fault);
      const call = new Call();
      assert.deepEqual(brief(await failureOf(driver.run(call))), expected);
      assert.deepEqual([provider.generations.length, provider.ledger.bills.length], [1, 0]);
      assert.deepEqual([call.pieces, call.usages, call.ids], [[], [], []]);
    });
  }

  test(`${name}: a key that is revoked is turned away, and is in no message`, async (t) => {
    const { provider, driver } = await seat(t, name);
    provider.key = 'another';
    const error = await failureOf(driver.run(new Call()));
    assert.deepEqual(brief(error), ['EXECUTION_FAILED', true, 'auth_required']);
    provider.key = KEY;
    provider.stage.fail('quotes_key');
    const quoted = await failureOf(driver.run(new Call()));
    assert.match(quoted.message, /the header was/);
    for (const { message, stack, cause } of [error, quoted])
      assert.ok(!`${message} ${stack} ${cause}`.includes(KEY));
  });

  test(`${name}: a redirect is not followed, and takes the key nowhere`, async (t) => {
    const foreign = await foreignHost(t);
    const { provider, driver } = await seat(t, name);
    provider.stage.fail('redirect', { location: foreign.url });
    const error = await failureOf(driver.run(new Call()));
    assert.deepEqual([error.code, error.details.reason], ['WORKER_PROTOCOL', 'redirect']);
    assert.deepEqual(foreign.got, []);
  });

  test(`${name}: a provider that is not there has got nothing`, async (t) => {
    const { provider, driver } = await seat(t, name);
    await provider.stop();
    const error = await failureOf(driver.run(new Call()));
    assert.deepEqual(
      [error.code, error.details.reason, error.retriable],
      ['WORKER_UNAVAILABLE', 'unreachable', true],
    );
  });
}

const WAITS: [Record<string, string>, number | undefined][] = [
  [{}, undefined],
  [{ 'retry-after': '7' }, 7000],
  [{ 'retry-after-ms': '250', 'retry-after': '7' }, 250],
  [{ 'x-ratelimit-reset-requests': '1s', 'x-ratelimit-reset-tokens': '6m0s' }, 360_000],
  [{ 'retry-after': String(365 * 86_400) }, 86_400_000],
];
for (const [headers, wait] of WAITS) {
  test(`a wait of ${JSON.stringify(headers)} is one of ${wait} ms`, async (t) => {
    const { provider, driver } = await seat(t, 'openai-responses');
    provider.stage.fail('rate_limited', { headers });
    assert.equal((await failureOf(driver.run(new Call()))).details.retryAfterMs, wait);
  });
}

test('a wait until a date is counted from the date of the answer', async (t) => {
  const { provider, driver } = await seat(t, 'anthropic-messages');
  const date = 'Mon, 01 Jan 2035 00:00:00 GMT';
  provider.stage.fail('rate_limited', { headers: { date, 'retry-after': 'Mon, 01 Jan 2035 00:01:00 GMT' } });
  provider.stage.fail('overloaded', {
    headers: { date, 'anthropic-ratelimit-input-tokens-reset': '2035-01-01T00:00:30Z' },
  });
  assert.equal((await failureOf(driver.run(new Call()))).details.retryAfterMs, 60_000);
  assert.equal((await failureOf(driver.run(new Call()))).details.retryAfterMs, 30_000);
});

/** Faults after the provider has accepted and billed, where nothing is kept: the answer cannot be had any more. */
const LOST: FaultName[] = ['drop', 'bad_gateway', 'cut_mid', 'end_mid'];
for (const name of STREAMING) {
  for (const fault of LOST) {
    test(`${name} without keep: "${fault}" is an unknown outcome, and is not sent again`, async (t) => {
      const { provider, driver } = await seat(t, name, { keep: false });
      provider.stage.fail(fault);
      const call = new Call();
      assert.equal((await failureOf(driver.run(call))).code, 'UNKNOWN_OUTCOME');
      assert.deepEqual([provider.generations.length, provider.ledger.bills.length], [1, 1]);
      assert.equal(driver.abilities.finds, 'nothing');
      assert.equal((await failureOf(driver.resume(call.earlier(undefined)))).code, 'UNKNOWN_OUTCOME');
      assert.equal(provider.generations.length, 1);
    });
  }

  test(`${name} without keep: garbage in a stream is WORKER_PROTOCOL, and is not sent again`, async (t) => {
    const { provider, driver } = await seat(t, name, { keep: false });
    provider.stage.fail('garbage');
    assert.equal((await failureOf(driver.run(new Call()))).code, 'WORKER_PROTOCOL');
    assert.deepEqual([provider.generations.length, provider.ledger.bills.length], [1, 1]);
  });

  test(`${name} without keep: an error as the first event was turned away, a later one was not`, async (t) => {
    const { provider, driver } = await seat(t, name, { keep: false });
    provider.stage.fail('error_first');
    assert.deepEqual(brief(await failureOf(driver.run(new Call()))), ['WORKER_BUSY', true, 'overloaded']);
    provider.stage.fail('error_later');
    const call = new Call();
    assert.deepEqual(brief(await failureOf(driver.run(call))), ['EXECUTION_FAILED', true, undefined]);
    assert.equal(call.text, 'You ');
    assert.equal(provider.generations.length, 2);
  });
}

/** What the tokens of the answer are, and those that were noted when the stream was cut. */
const TOTALS = [20, 4];
const countsOf = (usage: { prompt_tokens: number; completion_tokens: number } | undefined): unknown =>
  usage && [usage.prompt_tokens, usage.completion_tokens];

const CUT_BEFORE: Record<string, { code?: string; noted: unknown }> = {
  // The text is whole; the tokens would have come after it.
  'openai-chat': { noted: undefined },
  'openai-responses': { code: 'UNKNOWN_OUTCOME', noted: undefined },
  'anthropic-messages': { code: 'UNKNOWN_OUTCOME', noted: [20, 1] },
  'gemini-stream': { code: 'UNKNOWN_OUTCOME', noted: [20, 4] },
};
for (const name of STREAMING) {
  test(`${name} without keep: a stream that is cut after the tokens were counted is whole`, async (t) => {
    const { provider, driver } = await seat(t, name, { keep: false });
    provider.stage.fail('cut_after_usage');
    const result = await driver.run(new Call());
    assert.deepEqual([result.text, countsOf(result.usage)], [ANSWER, TOTALS]);
    assert.equal(provider.ledger.bills.length, 1);
  });

  test(`${name} without keep: of a stream that is cut before, what is known is reported`, async (t) => {
    const { provider, driver } = await seat(t, name, { keep: false });
    provider.stage.fail('cut_before_usage');
    const call = new Call();
    const { code, noted } = CUT_BEFORE[name] ?? assert.fail();
    if (code !== undefined) assert.equal((await failureOf(driver.run(call))).code, code);
    else assert.equal((await driver.run(call)).text, ANSWER);
    assert.deepEqual(countsOf(call.usages.at(-1)), noted);
  });

  test(`${name}: tokens that are counted twice count once, and none are none`, async (t) => {
    const { provider, driver } = await seat(t, name, { keep: false });
    provider.stage.fail('usage_twice');
    provider.stage.fail('no_usage');
    const call = new Call();
    assert.deepEqual(countsOf((await driver.run(call)).usage), TOTALS);
    assert.deepEqual(countsOf(call.usages.at(-1)), TOTALS);
    const without = await driver.run(new Call());
    assert.deepEqual([without.text, without.usage], [ANSWER, undefined]);
  });
}

test('openai-responses: events that come twice or in another order change nothing', async (t) => {
  const { provider, driver } = await seat(t, 'openai-responses');
  for (const fault of ['doubled', 'disordered'] as const) {
    provider.stage.fail(fault);
    const call = new Call();
    assert.equal((await driver.run(call)).text, ANSWER);
    assert.equal(call.text, ANSWER);
  }
});

test('anthropic-messages: events that come twice make the text uncertain, and are an error', async (t) => {
  const { provider, driver } = await seat(t, 'anthropic-messages');
  provider.stage.fail('doubled');
  const error = await failureOf(driver.run(new Call()));
  assert.deepEqual([error.code, error.retriable], ['WORKER_PROTOCOL', false]);
  assert.equal(provider.ledger.bills.length, 1);
});

test('what a provider cannot do is refused before anything is sent', async (t) => {
  const refused: [DriverName, object][] = [
    ['openai-chat', { input: 'embed this' }],
    ['openai-chat', { prompt: 'go on', raw_prompt: true }],
    ['openai-responses', { stop: ['x'] }],
    ['openai-responses', { seed: 1 }],
    ['anthropic-messages', { seed: 1 }],
    ['anthropic-messages', { temperature: 1.5 }],
    ['anthropic-messages', { response_format: { type: 'json_object' } }],
    ['anthropic-batches', { messages: [{ role: 'user', content: [{ type: 'input_audio' }] }] }],
    ['gemini-stream', { logit_bias: { 1: 1 } }],
    ['gemini-generate', { input: 'embed this' }],
  ];
  for (const [name, body] of refused) {
    const { provider, driver } = await seat(t, name);
    assert.equal((await failureOf(driver.run(new Call(body)))).code, 'UNSUPPORTED', JSON.stringify(body));
    assert.deepEqual(provider.asked, []);
  }
});
