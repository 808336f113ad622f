import assert from 'node:assert/strict';
import { test } from 'node:test';
import { realEnv } from '../kit/env/real.ts';
import { cappedPayload } from './capped-payload.ts';

const capped = async (payload: unknown, most: number | undefined = 100): Promise<unknown> =>
  JSON.parse(await cappedPayload(JSON.stringify(payload), most, realEnv().timers));

test('a question asks for at most so many tokens, in whatever spelling, and for no more than it did', async () => {
  const messages = [{ role: 'user', content: 'x' }];
  assert.deepEqual(await capped({ messages }), { messages, max_tokens: 100 });
  assert.deepEqual(await capped({ messages, max_tokens: 101, n: 2 }), { messages, max_tokens: 100, n: 2 });
  assert.deepEqual(await capped({ prompt: 'x', max_tokens: 7 }), { prompt: 'x', max_tokens: 7 });
  for (const wrong of [null, -1, 0.5, '5', 1e300])
    assert.deepEqual(await capped({ prompt: 'x', max_tokens: wrong }), { prompt: 'x', max_tokens: 100 });
  assert.deepEqual(await capped({ prompt: 'x', max_completion_tokens: 200, max_output_tokens: 9 }), {
    prompt: 'x',
    max_completion_tokens: 100,
    max_output_tokens: 9,
    max_tokens: 100,
  });
  assert.deepEqual(await capped('say "hello"'), { prompt: 'say "hello"', max_tokens: 100 });
});

test('what asks no model for an answer stays as it is, and so does everything without a bound', async () => {
  for (const payload of [null, 7, [], {}, { input: 'x' }, { argv: ['x'] }, { prompt: null }])
    assert.deepEqual(await capped(payload), payload);
  const text = ' {"prompt": "x" } ';
  const { timers } = realEnv();
  assert.equal(await cappedPayload(text, undefined, timers), text);
  assert.deepEqual(JSON.parse(await cappedPayload(text, 5, timers)), { prompt: 'x', max_tokens: 5 });
});

test('a payload of many parts is bounded too', async () => {
  const messages = Array.from({ length: 5000 }, () => ({ role: 'user', content: 'x'.repeat(30) }));
  const text = await cappedPayload(JSON.stringify({ messages }), 100, realEnv().timers);
  assert.deepEqual(JSON.parse(text), { messages, max_tokens: 100 });
});
