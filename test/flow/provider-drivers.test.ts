/** The drivers of the gateway in front of fake providers: answers, calls that are found again, and cancels. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { foreignHost } from '../fakes/providers/foreign-host.ts';
import type { Json } from '../fakes/providers/provider.ts';
import { until } from './openai-kit.ts';
import {
  ANSWER,
  API_DRIVERS,
  Call,
  failureOf,
  KEY,
  STREAMING,
  SteeredTimers,
  seat,
  TAG,
} from './provider-kit.ts';

const look = {
  type: 'function',
  function: { name: 'look', parameters: { type: 'object', properties: { far: { type: 'boolean' } } } },
};
const TOOLS = { messages: [{ role: 'user', content: 'tools' }], tools: [look] };
const budget = { thinking: { type: 'enabled', budget_tokens: 1024 } };
const THINKS: Record<string, object> = { 'anthropic-messages': budget, 'anthropic-batches': budget };

for (const name of API_DRIVERS) {
  test(`${name}: an answer with what the model thinks and all its tokens`, async (t) => {
    const { provider, driver } = await seat(t, name);
    const call = new Call({ max_tokens: 2000, ...(THINKS[name] ?? { reasoning_effort: 'low' }) });
    const { usage, ...result } = await driver.run(call);
    assert.deepEqual(result, { text: ANSWER, finish_reason: 'stop', reasoning: 'Let me think.' });
    assert.deepEqual(
      { ...usage, cache_write_tokens: usage?.cache_write_tokens ?? 0 },
      {
        prompt_tokens: 20,
        completion_tokens: 7,
        cache_read_tokens: 5,
        cache_write_tokens: name.startsWith('anthropic') ? 2 : 0,
        reasoning_tokens: 3,
      },
    );
    assert.deepEqual(call.usages.at(-1), usage);
    assert.equal(call.text, ANSWER);
    assert.deepEqual(call.pieces[0], { reasoning: 'Let me think.' });
    assert.equal(provider.generations.length, 1);
    assert.equal(provider.asked.at(0)?.key, KEY);
  });

  test(`${name}: a call of a function, in pieces and whole`, async (t) => {
    const { driver } = await seat(t, name);
    const call = new Call(TOOLS);
    const { tool_calls, finish_reason, text } = await driver.run(call);
    const called = { name: 'look', arguments: '{"far":true}' };
    assert.deepEqual(
      [tool_calls, finish_reason, text],
      [[{ id: 'call_1', type: 'function', function: called }], 'tool_calls', ''],
    );
    const deltas = call.pieces.flatMap((piece) => ('toolCalls' in piece ? piece.toolCalls : []));
    const given = (deltas as { function: { arguments?: string } }[]).map(
      (each) => each.function.arguments ?? '',
    );
    assert.equal(given.join(''), called.arguments);
  });
}

/** Where each API has the most tokens of an answer, with those of reasoning. */
const LIMITS: Record<string, (body: Json) => unknown[]> = {
  'openai-chat': (body) => [body.max_completion_tokens, body.max_tokens],
  'openai-responses': (body) => [body.max_output_tokens, undefined],
  'anthropic-messages': (body) => [body.max_tokens, undefined],
  'anthropic-batches': (body) => [body.requests[0].params.max_tokens, undefined],
  'gemini-stream': (body) => [body.generationConfig.maxOutputTokens, undefined],
  'gemini-generate': (body) => [body.generationConfig.maxOutputTokens, undefined],
};
/** Fields of callers that would cost more than the input and `max_tokens`. */
const DEARER = {
  n: 5,
  best_of: 5,
  max_completion_tokens: 9999,
  max_output_tokens: 9999,
  audio: { voice: 'x', format: 'wav' },
  modalities: ['text', 'audio'],
  web_search_options: {},
  prediction: { type: 'content', content: 'x' },
  service_tier: 'priority',
  previous_response_id: 'resp_1',
  conversation: 'conv_1',
  cache_control: { type: 'ephemeral', ttl: '1h' },
  mcp_servers: [{ type: 'url', url: 'https://example.org' }],
  speed: 'fast',
  inference_geo: 'us',
  extra_body: { n: 5 },
};
for (const name of API_DRIVERS) {
  test(`${name}: exactly max_tokens is sent, and nothing that a caller could make dearer`, async (t) => {
    const { provider, driver } = await seat(t, name);
    await driver.run(new Call({ max_tokens: 321, ...DEARER }));
    const { body } = provider.generations[0] ?? assert.fail();
    assert.deepEqual(LIMITS[name]?.(body), [321, undefined]);
    const sent = Object.keys(body.requests?.[0].params ?? body);
    const limits = ['max_tokens', 'max_completion_tokens', 'max_output_tokens'];
    assert.deepEqual(
      sent.filter((field) => field in DEARER && !limits.includes(field)),
      [],
    );
  });
}

test('openai-chat keeps an answer under its tag, and finds it after the gateway has started again', async (t) => {
  const made = await seat(t, 'openai-chat', { times: { findMs: 60_000 } });
  const { provider } = made;
  assert.equal(made.driver.abilities.finds, 'token');
  provider.stage.hold('first-event');
  const lost = failureOf(made.driver.run(new Call()));
  await provider.stage.reached('first-event');
  const driver = made.restart();
  await lost;
  const call = new Call();
  const found = driver.resume(call.earlier(undefined));
  provider.stage.release('first-event');
  const result = await found;
  assert.deepEqual([result.text, result.usage?.completion_tokens, call.text], [ANSWER, 4, ANSWER]);
  assert.deepEqual([provider.generations.length, provider.ledger.bills.length], [1, 1]);
  assert.deepEqual([provider.ledger.bills[0]?.tag, provider.generations[0]?.body.store], [TAG, true]);
});

test('openai-chat finds the answer of a connection that broke, and never that of another call', async (t) => {
  const { provider, driver } = await seat(t, 'openai-chat', { times: { findMs: 60_000 } });
  provider.stage.ignoresFilter = true;
  await driver.run(new Call({ prompt: 'another' }, 'another'));
  provider.stage.fail('cut_mid');
  provider.stage.readFaults.push(500, 429, 502, 200);
  const { text } = await driver.run(new Call());
  assert.equal(text, ANSWER);
  assert.equal(provider.ledger.bills.length, 2);
});

test('openai-chat gives up a call that was never stored', async (t) => {
  const { provider, driver } = await seat(t, 'openai-chat');
  await driver.run(new Call({}, 'another'));
  provider.stage.ignoresFilter = true;
  const error = await failureOf(driver.resume(new Call().earlier(undefined)));
  assert.equal(error.code, 'UNKNOWN_OUTCOME');
  assert.equal(provider.generations.length, 1);
});

test('openai-responses: the id is kept before anything of the answer, and finds it after a restart', async (t) => {
  const made = await seat(t, 'openai-responses');
  const { provider } = made;
  provider.stage.hold('before-end');
  const first = new Call();
  const order: string[] = [];
  first.keepId = async (id) => {
    await new Promise((resolve) => setImmediate(resolve));
    order.push('kept');
    first.ids.push(id);
  };
  first.emit = () => void order.push('piece');
  const lost = failureOf(made.driver.run(first));
  await until(() => order.includes('piece'));
  const driver = made.restart();
  assert.equal((await lost).code, 'UNKNOWN_OUTCOME');
  assert.deepEqual([order[0], first.ids.length], ['kept', 1]);
  const call = new Call();
  const found = driver.resume(call.earlier(first.ids[0]));
  provider.stage.release('before-end');
  assert.equal((await found).text, ANSWER);
  assert.equal(call.text, ANSWER);
  assert.deepEqual([provider.generations.length, provider.ledger.bills[0]?.tag], [1, TAG]);
});

test('openai-responses: a stream that breaks is no loss: the response is read by its id', async (t) => {
  const { provider, driver } = await seat(t, 'openai-responses');
  for (const fault of ['cut_mid', 'cut_before_usage', 'error_later'] as const) {
    provider.stage.fail(fault);
    provider.stage.readFaults.push(503, 429, 200);
    const call = new Call();
    const result = await driver.run(call);
    assert.deepEqual([result.text, call.text, call.usages.at(-1)?.completion_tokens], [ANSWER, ANSWER, 4]);
  }
  provider.stage.fail('cut_mid');
  const call = new Call(TOOLS);
  const { tool_calls } = await driver.run(call);
  assert.equal(tool_calls?.[0]?.function.arguments, '{"far":true}');
  const given = call.pieces.map((piece) =>
    'toolCalls' in piece ? (piece.toolCalls[0] as never)['function']['arguments'] : '',
  );
  assert.equal(given.join(''), '{"far":true}');
  assert.equal(provider.ledger.bills.length, 4);
});

test('openai-responses: a response that fails is a failure; one that is gone is an unknown outcome', async (t) => {
  const { provider, driver } = await seat(t, 'openai-responses');
  provider.stage.fail('fails');
  const failed = await failureOf(driver.run(new Call()));
  assert.deepEqual([failed.code, failed.retriable], ['EXECUTION_FAILED', true]);
  const id = provider.ledger.bills[0]?.id as string;
  provider.stage.expired.add(id);
  assert.equal((await failureOf(driver.resume(new Call().earlier(id)))).code, 'UNKNOWN_OUTCOME');
  assert.equal((await failureOf(driver.resume(new Call().earlier(undefined)))).code, 'UNKNOWN_OUTCOME');
  provider.key = 'revoked';
  assert.equal((await failureOf(driver.resume(new Call().earlier(id)))).code, 'UNKNOWN_OUTCOME');
  assert.equal(provider.generations.length, 1);
});

test('openai-responses: a provider that answers nothing usable is asked for a limited time', async (t) => {
  const { provider, driver } = await seat(t, 'openai-responses', { times: { lostMs: 0 } });
  await driver.run(new Call());
  const id = provider.ledger.bills[0]?.id;
  for (const status of [500, 200, 429]) {
    provider.stage.readFaults.push(status);
    assert.equal((await failureOf(driver.resume(new Call().earlier(id)))).code, 'UNKNOWN_OUTCOME');
  }
  assert.equal((await driver.resume(new Call().earlier(id))).text, ANSWER);
});

test('openai-responses: a cancel is an order to the provider, and brings the tokens so far', async (t) => {
  const { provider, driver } = await seat(t, 'openai-responses');
  provider.stage.hold('before-end');
  const call = new Call();
  const ended = failureOf(driver.run(call));
  await until(() => call.ids.length > 0);
  call.cancel();
  assert.equal((await ended).code, 'CANCELLED');
  const id = call.ids[0];
  assert.deepEqual(
    provider.asked.filter(({ path }) => path.endsWith('/cancel')).map(({ path }) => path),
    [`/v1/responses/${id}/cancel`],
  );
  assert.deepEqual(call.usages.at(-1)?.completion_tokens, 1);
});

test('openai-responses: a call that is cancelled before its id is known waits for it, and then gives the order', async (t) => {
  const { provider, driver } = await seat(t, 'openai-responses', {
    times: { cancelMs: { id: 60_000, order: 1500, state: 1000 } },
  });
  provider.stage.hold('received');
  const call = new Call();
  const ended = failureOf(driver.run(call));
  await provider.stage.reached('received');
  call.cancel();
  provider.stage.hold('before-end');
  provider.stage.release('received');
  assert.equal((await ended).code, 'CANCELLED');
  assert.equal(provider.asked.at(-1)?.path, `/v1/responses/${call.ids[0]}/cancel`);
});

test('openai-responses without keep: nothing is stored, and a cancel closes the connection', async (t) => {
  const { provider, driver } = await seat(t, 'openai-responses', { keep: false });
  const { cancels, finds } = driver.abilities;
  assert.deepEqual([cancels, finds], ['disconnect', 'nothing']);
  provider.stage.hold('before-end');
  const call = new Call();
  const ended = failureOf(driver.run(call));
  await until(() => call.pieces.length > 0);
  call.cancel();
  assert.equal((await ended).code, 'CANCELLED');
  const { store, background, metadata } = provider.generations[0]?.body ?? {};
  assert.deepEqual([store, background, metadata, call.ids], [false, undefined, undefined, []]);
});

test('anthropic-messages: a cancel closes the connection, and the tokens so far are known', async (t) => {
  const { provider, driver } = await seat(t, 'anthropic-messages');
  provider.stage.hold('before-end');
  const call = new Call();
  const ended = failureOf(driver.run(call));
  await until(() => call.pieces.length > 0);
  call.cancel();
  assert.equal((await ended).code, 'CANCELLED');
  assert.equal(call.usages.at(-1)?.prompt_tokens, 20);
  assert.equal(provider.asked.length, 1);
});

for (const name of STREAMING) {
  test(`${name} without keep: a provider that hangs is an unknown outcome`, async (t) => {
    const times = { responseMs: 123_457, idleMs: 4 * 123_458 };
    const timers = new SteeredTimers([times.responseMs, times.idleMs / 4]);
    const { provider, driver } = await seat(t, name, { keep: false, times, timers });
    provider.stage.hold('received');
    provider.stage.fail('hang');
    const silent = failureOf(driver.run(new Call()));
    await provider.stage.reached('received');
    timers.fire(times.responseMs);
    assert.equal((await silent).code, 'UNKNOWN_OUTCOME');
    provider.stage.release('received');
    provider.stage.fail('hang_mid');
    const call = new Call();
    const emitted = new Promise<void>((resolve) => {
      call.emit = () => resolve();
    });
    const stuck = failureOf(driver.run(call));
    await emitted;
    for (let check = 0; check < 6; check++) {
      await new Promise((resolve) => setImmediate(resolve));
      timers.fire(times.idleMs / 4);
    }
    assert.equal((await stuck).code, 'UNKNOWN_OUTCOME');
    assert.equal(provider.ledger.bills.length, 2);
  });
}

test('anthropic-batches: an earlier call is found by its id, and one whose id was lost by its tag', async (t) => {
  const made = await seat(t, 'anthropic-batches');
  const { provider } = made;
  assert.equal(made.driver.abilities.finds, 'token');
  await made.driver.run(new Call({}, 'another'));
  provider.stage.hold('before-end');
  const first = new Call();
  const lost = failureOf(made.driver.run(first));
  await provider.stage.reached('before-end');
  await until(() => first.ids.length > 0);
  const driver = made.restart();
  assert.equal((await lost).code, 'UNKNOWN_OUTCOME');
  const byId = driver.resume(new Call().earlier(first.ids[0]));
  const byTag = new Call();
  const found = driver.resume(byTag.earlier(undefined));
  // The batch still runs, and its tag cannot be seen: it is waited for.
  const lists = () => provider.asked.filter(({ path }) => path.startsWith('/v1/messages/batches?'));
  let isOver = false;
  found.catch(() => {
    isOver = true;
  });
  await until(() => lists().length > 2 || isOver);
  provider.stage.release('before-end');
  assert.equal((await byId).text, ANSWER);
  assert.equal((await found).text, ANSWER);
  assert.deepEqual(byTag.ids, first.ids);
  assert.deepEqual(
    provider.ledger.bills.map(({ tag }) => tag),
    ['another', TAG],
  );
});

test('anthropic-batches: a batch whose id was lost on the way is found, and not made again', async (t) => {
  const { provider, driver } = await seat(t, 'anthropic-batches', { times: { findMs: 60_000 } });
  provider.stage.fail('cut_mid');
  provider.stage.readFaults.push(500, 529);
  const call = new Call();
  assert.equal((await driver.run(call)).text, ANSWER);
  assert.deepEqual(call.ids, [provider.ledger.bills[0]?.id]);
  assert.equal(provider.generations.length, 1);
});

test('anthropic-batches: what is nowhere is an unknown outcome, and so is a batch that is gone', async (t) => {
  const { provider, driver } = await seat(t, 'anthropic-batches');
  await driver.run(new Call({}, 'another'));
  assert.equal((await failureOf(driver.resume(new Call().earlier(undefined)))).code, 'UNKNOWN_OUTCOME');
  const id = provider.ledger.bills[0]?.id as string;
  provider.stage.expired.add(id);
  assert.equal((await failureOf(driver.resume(new Call({}, 'another').earlier(id)))).code, 'UNKNOWN_OUTCOME');
  assert.equal(provider.generations.length, 1);
});

test('anthropic-batches: a request that fails or is never begun', async (t) => {
  const { provider, driver } = await seat(t, 'anthropic-batches');
  provider.stage.fail('fails');
  provider.stage.fail('expires');
  const failed = await failureOf(driver.run(new Call()));
  assert.deepEqual([failed.code, failed.retriable], ['EXECUTION_FAILED', true]);
  assert.equal((await failureOf(driver.run(new Call()))).details.turnedAway, 'overloaded');
});

test('anthropic-batches: results at another origin are not read', async (t) => {
  const foreign = await foreignHost(t);
  const { provider, driver } = await seat(t, 'anthropic-batches');
  provider.stage.fail('foreign_results', { location: foreign.url });
  assert.equal((await failureOf(driver.run(new Call()))).code, 'UNKNOWN_OUTCOME');
  assert.deepEqual(foreign.got, []);
});

test('anthropic-batches: a cancel is an order to the provider', async (t) => {
  const { provider, driver } = await seat(t, 'anthropic-batches');
  provider.stage.hold('before-end');
  const call = new Call();
  const ended = failureOf(driver.run(call));
  await until(() => call.ids.length > 0);
  call.cancel();
  assert.equal((await ended).code, 'CANCELLED');
  const orders = provider.asked.filter(({ path }) => path.endsWith('/cancel'));
  assert.deepEqual(
    orders.map(({ path }) => path),
    [`/v1/messages/batches/${call.ids[0]}/cancel`],
  );
});

test('anthropic-messages: fields of sampling go to the version of the API that has them', async (t) => {
  const { provider, driver } = await seat(t, 'anthropic-messages');
  assert.equal((await driver.run(new Call({ temperature: 0.5, top_k: 3 }))).text, ANSWER);
  assert.equal(provider.generations[0]?.body.temperature, 0.5);
});

for (const name of ['openai-responses', 'anthropic-batches'] as const) {
  test(`${name}: a cancelled call whose end the provider does not confirm has an unknown outcome`, async (t) => {
    const { provider, driver } = await seat(t, name, {
      times: { cancelMs: { id: 1500, order: 1500, state: 50 } },
    });
    provider.stage.hold('before-end');
    const call = new Call();
    const run = failureOf(driver.run(call));
    await provider.stage.reached('before-end');
    // The provider answers neither the order nor questions any more.
    provider.key = 'another key';
    call.cancel();
    assert.equal((await run).code, 'UNKNOWN_OUTCOME');
    assert.equal(provider.generations.length, 1);
  });
}
