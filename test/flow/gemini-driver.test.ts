/** What only the drivers of Gemini do; what they share with all others is in provider-drivers and provider-faults. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from './openai-kit.ts';
import { ANSWER, Call, failureOf, KEY, seat } from './provider-kit.ts';

const BOTH = ['gemini-stream', 'gemini-generate'] as const;
const PATHS = {
  'gemini-stream': ':streamGenerateContent?alt=sse',
  'gemini-generate': ':generateContent',
};

for (const name of BOTH) {
  test(`${name}: the model is one segment of the path, and the key is in no URL`, async (t) => {
    const { provider, driver } = await seat(t, name);
    for (const [model, segment] of [
      ['gemini-3-pro', 'gemini-3-pro'],
      ['models/gemini-3-pro', 'gemini-3-pro'],
      ['../../x?key=1', '..%2F..%2Fx%3Fkey%3D1'],
    ] as const) {
      const call = new Call();
      await driver.run({ ...call, model, signal: call.signal });
      const { path, key } = provider.asked.at(-1) ?? assert.fail();
      assert.deepEqual([path, key], [`/v1beta/models/${segment}${PATHS[name]}`, KEY]);
    }
  });

  test(`${name}: RESOURCE_EXHAUSTED makes the seat rest for as long as RetryInfo says`, async (t) => {
    const { provider, driver } = await seat(t, name);
    provider.stage.fail('rate_limited');
    const { code, details } = await failureOf(driver.run(new Call()));
    assert.deepEqual(
      [code, details.turnedAway, details.retryAfterMs],
      ['RATE_LIMITED', 'rate_limited', 37_000],
    );
  });

  test(`${name}: a prompt that is blocked fails with the reason, and its tokens are known`, async (t) => {
    const { provider, driver } = await seat(t, name);
    provider.stage.fail('blocked');
    const call = new Call();
    const { code, retriable, message, details } = await failureOf(driver.run(call));
    assert.deepEqual([code, retriable, details.turnedAway], ['EXECUTION_FAILED', false, undefined]);
    assert.match(message, /has blocked the prompt: PROHIBITED_CONTENT/);
    assert.deepEqual(call.usages, [{ prompt_tokens: 20, completion_tokens: 0 }]);
    assert.equal(provider.generations.length, 1);
  });

  test(`${name}: an earlier call is an unknown outcome, and is not made again`, async (t) => {
    const { provider, driver } = await seat(t, name);
    assert.equal((await failureOf(driver.resume(new Call().earlier(undefined)))).code, 'UNKNOWN_OUTCOME');
    assert.deepEqual(provider.asked, []);
  });
}

test('gemini-stream: a cancel closes the connection, and the tokens so far are known as a part', async (t) => {
  const { provider, driver } = await seat(t, 'gemini-stream');
  provider.stage.hold('before-end');
  const call = new Call();
  const ended = failureOf(driver.run(call));
  await until(() => call.text === ANSWER);
  call.cancel();
  assert.equal((await ended).code, 'CANCELLED');
  const { prompt_tokens, partial } = call.usages.at(-1) ?? assert.fail();
  assert.deepEqual([prompt_tokens, partial, provider.asked.length], [20, true, 1]);
});

test('gemini-generate: an answer that is lost or cut is an unknown outcome, and is not sent again', async (t) => {
  const { provider, driver } = await seat(t, 'gemini-generate');
  for (const fault of ['drop', 'bad_gateway', 'cut_mid'] as const) {
    provider.stage.fail(fault);
    const call = new Call();
    assert.equal((await failureOf(driver.run(call))).code, 'UNKNOWN_OUTCOME', fault);
    assert.deepEqual(call.pieces, []);
  }
  assert.deepEqual([provider.generations.length, provider.ledger.bills.length], [3, 3]);
});

test('gemini-generate: a cancel closes the connection', async (t) => {
  const { provider, driver } = await seat(t, 'gemini-generate');
  provider.stage.hold('before-end');
  const call = new Call();
  const ended = failureOf(driver.run(call));
  await provider.stage.reached('before-end');
  call.cancel();
  assert.equal((await ended).code, 'CANCELLED');
  assert.equal(provider.generations.length, 1);
});
