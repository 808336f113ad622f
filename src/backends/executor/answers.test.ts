import assert from 'node:assert/strict';
import { test } from 'node:test';
import { usedTokens } from '../../../test/fakes/used-tokens.ts';
import type { ExecutionEvent } from '../../core/ports/backend.ts';
import { realEnv } from '../../kit/env/real.ts';
import { errorInfo } from '../../model/errors.ts';
import { MAX_PROGRESS_CHARS } from '../../model/worker-wire.ts';
import type { StreamReply } from '../../wire/outbound.ts';
import { readExecution, refusal } from './answers.ts';

async function read(stream: string): Promise<{ events: ExecutionEvent[]; end: unknown }> {
  const reply = {
    read: async (on: (piece: Buffer) => void) => on(Buffer.from(stream)),
  } as unknown as StreamReply;
  const events: ExecutionEvent[] = [];
  const end = await readExecution(reply, (event) => events.push(event), realEnv().timers);
  return { events, end };
}

const event = (id: number, type: string, data: string): string =>
  `id: ${id}\nevent: ${type}\n${data.replace(/^/gm, 'data: ')}\n\n`;

const padded = (chars: number): string => {
  const bare = JSON.stringify({ t: '', i: 0 });
  return JSON.stringify({ t: 'x'.repeat(chars - bare.length), i: 0 });
};

for (const type of ['started', 'token', 'metrics']) {
  test(`a ${type} event of more than 64 KiB violates the protocol: it is parsed in one turn`, async () => {
    const { events } = await read(event(1, type, padded(MAX_PROGRESS_CHARS)));
    assert.equal(events[0]?.text?.length, MAX_PROGRESS_CHARS);
    await assert.rejects(read(event(1, type, padded(MAX_PROGRESS_CHARS + 1))), {
      code: 'WORKER_PROTOCOL',
      message: /has 65537 characters, and may have 65536/,
    });
  });
}

test('the end of an execution may be larger', async () => {
  const text = 'x'.repeat(2 * MAX_PROGRESS_CHARS);
  const data = JSON.stringify({ tokens_out: 1, decode_time_ms: 1, result: { text } });
  const { end } = await read(event(1, 'end', data));
  assert.deepEqual(end, { is: 'ended', outcome: { ok: true, resultText: JSON.stringify({ text }) } });
});

test('[ORCH-16.1] the end of an execution says how many tokens it took and how long they were decoded', async () => {
  const usage = { prompt_tokens: 3, completion_tokens: 40, total_tokens: 43 };
  const data = JSON.stringify({ tokens_out: 40, decode_time_ms: 800, result: { text: 'x', usage } });
  const { end } = (await read(event(1, 'end', data))) as { end: { outcome: { usage: unknown } } };
  assert.deepEqual(end.outcome.usage, usedTokens(3, 40, 800));
});

const outcomeOf = async (error: object): Promise<unknown> => {
  const data = JSON.stringify({ code: 'RATE_LIMITED', message: 'later', retriable: true, ...error });
  const { end } = (await read(event(1, 'error', data))) as { end: { outcome: unknown } };
  return end.outcome;
};

test('a job that the provider turned away has not failed, unless the provider has counted tokens', async () => {
  const error = errorInfo('RATE_LIMITED', 'later');
  assert.deepEqual(await outcomeOf({ turned_away: 'quota', retry_after_ms: 7 }), {
    ok: 'turned_away',
    why: 'quota',
    error,
    retryAfterMs: 7,
  });
  const usage = { prompt_tokens: 5, completion_tokens: 0, cache_read_tokens: 2 };
  assert.deepEqual(await outcomeOf({ turned_away: 'quota', usage }), {
    ok: false,
    error,
    usage: { input: 3, cacheRead: 2, cacheWrite: 0, output: 0, reasoning: 0 },
  });
  assert.deepEqual(await outcomeOf({ code: 'CANCELLED', usage }), {
    ok: 'cancelled',
    usage: { input: 3, cacheRead: 2, cacheWrite: 0, output: 0, reasoning: 0 },
  });
});

test('tokens of only a part of an execution are marked as such', async () => {
  const usage = { prompt_tokens: 5, completion_tokens: 1, partial: true };
  const counted = { input: 5, cacheRead: 0, cacheWrite: 0, output: 1, reasoning: 0, isPartial: true };
  assert.deepEqual(await outcomeOf({ code: 'CANCELLED', usage }), { ok: 'cancelled', usage: counted });
  const failed = await outcomeOf({ usage });
  assert.deepEqual((failed as { usage: unknown }).usage, counted);
});

for (const completion_tokens of [-1, 0.5, '7', null, 2 ** 53]) {
  test(`an executor that counts ${JSON.stringify(completion_tokens)} tokens breaks the protocol`, async () => {
    const usage = { prompt_tokens: 5, completion_tokens };
    const data = JSON.stringify({ tokens_out: 1, decode_time_ms: 1, result: { text: 'x', usage } });
    await assert.rejects(read(event(1, 'end', data)), { code: 'WORKER_PROTOCOL' });
    await assert.rejects(outcomeOf({ usage }), { code: 'WORKER_PROTOCOL' });
  });
}

test('an executor that is busy says why, if it is a reason that we know', () => {
  const busy = { ...errorInfo('WORKER_BUSY'), retryAfterMs: 9 };
  assert.deepEqual(refusal({ ...busy, reason: 'reserved' }), {
    is: 'busy',
    retryAfterMs: 9,
    why: 'reserved',
  });
  assert.deepEqual(refusal({ ...busy, reason: 'full moon' }), { is: 'busy', retryAfterMs: 9 });
});

test('an event of several lines has a text too, in one line', async () => {
  const { events } = await read(event(1, 'metrics', '{\n"a":\n1}'));
  assert.deepEqual(events, [{ n: 1, type: 'metrics', data: { a: 1 }, text: '{"a":1}' }]);
});
