import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { describe, test } from 'node:test';
import { VirtualEnv } from '../../../test/flow/virtual-env.ts';
import { Secret } from '../../kit/secret.ts';
import type { ToolResult } from '../../model/run-jobs.ts';
import { callTool } from './call.ts';
import { MAX_ERROR_CHARS } from './error-text.ts';
import type { Tool, ToolContext } from './tool.ts';

const tool = (run: Tool['run'], more: Partial<Tool> = {}): Tool => ({
  name: 'sample',
  description: 'a sample',
  parameters: { type: 'object' },
  effect: 'pure',
  run,
  ...more,
});

function contextOf(signal = new AbortController().signal): ToolContext {
  return { signal, jobId: 'job-1', tenant: 'default' };
}

const timers = new VirtualEnv().timers;
const call = (
  run: Tool['run'],
  more: Partial<Tool> = {},
  secrets: readonly Secret[] = [],
): Promise<ToolResult> => callTool(tool(run, more), {}, contextOf(), { timers, secrets });

const textOf = async (result: unknown, maxOutputBytes?: number): Promise<string> => {
  const made = await call(() => result, maxOutputBytes === undefined ? {} : { maxOutputBytes });
  assert.ok(made.ok);
  return made.text;
};

describe('the result of a call', () => {
  test('is a text as it is, and anything else as JSON', async () => {
    assert.equal(await textOf('{"a"\n'), '{"a"\n');
    assert.equal(await textOf({ a: [1] }), '{"a":[1]}');
    assert.equal(await textOf(undefined), 'null');
    assert.equal(await textOf(() => 1), 'null');
    assert.equal(await textOf(Promise.resolve(5)), '5');
    assert.equal(await textOf('\ud800'), '\ufffd');
  });

  test('gets the arguments and what the call is for', async () => {
    const run = (args: { a: number }, context: ToolContext) => [args.a, context.jobId, context.tenant];
    const made = await callTool(tool(run), { a: 7 }, contextOf(), { timers });
    assert.deepEqual(made, { ok: true, text: '[7,"job-1","default"]' });
  });

  test('is cut between two characters, and says what is missing', async () => {
    assert.equal(await textOf('x'.repeat(10), 10), 'x'.repeat(10));
    assert.equal(
      await textOf('x'.repeat(11), 10),
      `${'x'.repeat(10)}\n[cut: the first 10 of 11 bytes are shown, 1 are missing]`,
    );
    for (const [letter, kept] of [
      ['ä', 5],
      ['€', 3],
      ['😀', 2],
    ] as const) {
      const text = await textOf(letter.repeat(100), 10);
      assert.equal(text.split('\n')[0], letter.repeat(kept));
      assert.doesNotMatch(text, /\ufffd/);
    }
    const usual = await textOf('x'.repeat(100_000));
    assert.match(usual, /^x{65536}\n\[cut: the first 65536 of 100000 bytes/);
  });

  test('has the lower of the two bounds', async () => {
    const bounded = (own: number, most: number) =>
      callTool(
        tool(() => 'x'.repeat(99), { maxOutputBytes: own }),
        {},
        contextOf(),
        { timers, maxOutputBytes: most },
      );
    for (const made of [await bounded(10, 20), await bounded(20, 10)]) assert.match(made.text, /^x{10}\n/);
  });

  test('that JSON has no form for is a failure', async () => {
    const cyclic: unknown[] = [];
    cyclic.push(cyclic);
    for (const result of [cyclic, 5n]) assert.equal((await call(() => result)).ok, false);
  });
});

describe('an error of a tool', () => {
  const errorOf = async (thrown: unknown, secrets: readonly Secret[] = []): Promise<string> => {
    const sync = await call(
      () => {
        throw thrown;
      },
      {},
      secrets,
    );
    const later = await call(() => Promise.reject(thrown), {}, secrets);
    assert.deepEqual(sync, later);
    assert.ok(!sync.ok && sync.why === 'failed' && sync.started);
    return sync.text;
  };

  test('is told by its message alone', async () => {
    const error = new Error('no such city');
    assert.equal(await errorOf(error), 'no such city');
    assert.equal(await errorOf('plain'), 'plain');
    assert.equal(await errorOf(new Error(`broken\n${error.stack}`)), 'broken\nError: no such city');
    for (const thrown of [null, undefined, 5, {}, new Error(''), { message: 5 }])
      assert.equal(await errorOf(thrown), 'the tool failed without a message');
    const hostile = {
      get message(): string {
        throw new Error('twice');
      },
    };
    assert.equal(await errorOf(hostile), 'the tool failed without a message');
  });

  test('is cut', async () => {
    const text = await errorOf(new Error('é'.repeat(10_000_000)));
    assert.equal(text.length, MAX_ERROR_CHARS);
    assert.ok(text.endsWith('…'));
  });

  test('shows no secrets', async () => {
    const secrets = [new Secret('hunter2'), new Secret('')];
    assert.equal(
      await errorOf(new Error('login with hunter2 failed'), secrets),
      'login with [redacted] failed',
    );
    // A secret that is cut in two would no longer be recognised: it is removed before the message is cut.
    const atEnd = await errorOf(new Error(`${'x'.repeat(MAX_ERROR_CHARS - 4)}hunter2`), secrets);
    assert.doesNotMatch(atEnd, /hun/);
    for (const [message, expected] of [
      ['GET https://joe:pass@host/x failed', 'GET https://[redacted]@host/x failed'],
      ['sent Authorization: Bearer abcdefgh12345', /^sent Authorization: \[redacted\]/],
      ['url ?api_key=abc123&b=1', 'url ?api_key=[redacted]&b=1'],
      ['{"password": "abc def"}', /^\{"password": "\[redacted\]/],
      ['wrong key sk-proj-0123456789abcdefghij', 'wrong key [redacted]'],
    ] as const) {
      const text = await errorOf(new Error(message));
      if (typeof expected === 'string') assert.equal(text, expected);
      else assert.match(text, expected);
    }
    assert.doesNotMatch(await errorOf(new Error('Authorization: Bearer abcdefgh12345')), /abcdefgh/);
  });
});

describe('the end of a call', { timeout: 10_000 }, () => {
  test('comes at the timeout, also if the tool ignores its signal', async () => {
    const virtual = new VirtualEnv();
    let signal: AbortSignal | undefined;
    const late = Promise.withResolvers<string>();
    const run = (_args: never, context: ToolContext) => {
      signal = context.signal;
      return late.promise;
    };
    const made = callTool(tool(run, { timeoutMs: 500 }), {}, contextOf(), { timers: virtual.timers });
    await virtual.pass(499);
    assert.equal(signal?.aborted, false);
    await virtual.pass(1);
    const text = 'the tool did not end within 500 ms, and was given up';
    assert.deepEqual(await made, { ok: false, text, why: 'timeout', started: true });
    assert.equal(signal?.aborted, true);
    late.reject(new Error('an error that nobody hears'));
    await virtual.pass(1);
  });

  test('has the lower of the two timeouts, and one by default', async () => {
    const endOf = async (own: number | undefined, most: number | undefined): Promise<number> => {
      const virtual = new VirtualEnv();
      const start = virtual.now;
      const never = tool(() => new Promise(() => undefined), own === undefined ? {} : { timeoutMs: own });
      const limits = { timers: virtual.timers, ...(most !== undefined && { timeoutMs: most }) };
      const made = callTool(never, {}, contextOf(), limits).then(() => virtual.now - start);
      for (let second = 0; second < 90; second++) await virtual.pass(1000);
      return made;
    };
    assert.equal(await endOf(2000, 5000), 2000);
    assert.equal(await endOf(5000, 2000), 2000);
    assert.equal(await endOf(undefined, 80_000), 80_000);
    assert.equal(await endOf(undefined, undefined), 60_000);
  });

  test('is a timeout for a tool that stops when its signal is aborted', async () => {
    const virtual = new VirtualEnv();
    const run = (_args: never, { signal }: ToolContext) =>
      new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('aborted'))));
    const made = callTool(tool(run, { timeoutMs: 5 }), {}, contextOf(), { timers: virtual.timers });
    await virtual.pass(5);
    const result = await made;
    assert.ok(!result.ok && result.why === 'timeout');
  });

  test('comes at once when the job is cancelled', async () => {
    const job = new AbortController();
    const made = callTool(
      tool(() => new Promise(() => undefined)),
      {},
      contextOf(job.signal),
      { timers },
    );
    job.abort();
    assert.deepEqual(await made, {
      ok: false,
      text: 'the call was cancelled',
      why: 'cancelled',
      started: true,
    });
  });

  test('comes before the tool begins if the job is cancelled already', async () => {
    const run = (): never => assert.fail('the tool must not begin');
    const result = await callTool(tool(run), {}, contextOf(AbortSignal.abort()), { timers });
    assert.ok(!result.ok && result.why === 'cancelled' && !result.started);
  });

  test('leaves no timer and no listener behind', async () => {
    const running = new Set<object>();
    const counted = {
      soon: setImmediate,
      after: () => {
        const timer = {};
        running.add(timer);
        return () => void running.delete(timer);
      },
    };
    const { signal } = new AbortController();
    await callTool(
      tool(() => 'done'),
      {},
      contextOf(signal),
      { timers: counted },
    );
    await callTool(
      tool(() => Promise.reject(new Error('no'))),
      {},
      contextOf(signal),
      { timers: counted },
    );
    assert.equal(running.size, 0);
    assert.equal(getEventListeners(signal, 'abort').length, 0);
  });
});
