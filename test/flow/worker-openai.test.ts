/** A worker in front of an OpenAI-compatible server, most of them bad ones. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { FakeUpstream } from '../fakes/openai-upstream.ts';
import { start, until } from './cli-process.ts';
import { readyWorker, type WorkerProcess } from './worker-kit.ts';

const FAKE = join(import.meta.dirname, '..', 'fakes', 'openai-upstream.ts');
const KEY = 'sk-very-secret';

describe('a worker in front of a server', () => {
  const upstream = new FakeUpstream();
  let worker: WorkerProcess;
  let count = 0;
  const endings: (() => Promise<void>)[] = [];
  const ask = async (body: object) => {
    const events = await (await worker.line.execute(`up-${++count}:1`, body)).rest();
    const last = events.at(-1);
    assert.ok(last);
    return { events, last, result: last.data.result };
  };

  before(async () => {
    const url = await upstream.listen();
    const words = ['--engine', 'openai', '--model', 'up', '--upstream', url, '--slots', '3'];
    const env = { ORCHD_UPSTREAM_KEY: KEY };
    worker = await readyWorker({ after: (run: () => Promise<void>) => endings.push(run) }, words, { env });
  });
  after(async () => {
    for (const end of endings) await end();
    upstream.close();
  });

  test('a conversation is handed on as it is, and the answer comes back as it comes', async () => {
    const messages = [{ role: 'user', content: 'Hello there' }];
    const { events, result } = await ask({ messages, temperature: 0.5, max_tokens: null, priority: 'batch' });
    assert.equal((await worker.line.health()).body.context_length, 4096);
    assert.deepEqual(result, {
      text: 'You said: Hello there',
      finish_reason: 'stop',
      usage: { prompt_tokens: 3, completion_tokens: 4 },
    });
    const texts = events.flatMap(({ event, data }) => (event === 'token' ? [data.t] : []));
    assert.deepEqual(texts, ['You ', 'said: ', 'Hello ', 'there']);
    const { path, key, body } = upstream.heard.at(-1) ?? {};
    assert.deepEqual([path, key], ['/v1/chat/completions', `Bearer ${KEY}`]);
    assert.deepEqual(body, {
      messages,
      temperature: 0.5,
      model: 'up',
      stream: true,
      stream_options: { include_usage: true },
    });
  });

  test('the trace of a caller is passed on, if it is well-formed', async () => {
    const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
    const heard = async (headers: Record<string, string>, body: object): Promise<unknown> => {
      await (await worker.line.execute(`traced-${++count}:1`, body, headers)).rest();
      return upstream.heard.at(-1)?.traceparent;
    };
    assert.equal(await heard({ traceparent }, { prompt: 'Hello' }), traceparent);
    assert.equal(await heard({ traceparent }, { input: ['a'] }), traceparent);
    assert.equal(await heard({ traceparent: `${traceparent}x` }, { prompt: 'Hello' }), undefined);
    assert.equal(await heard({}, { prompt: 'Hello' }), undefined);
  });

  test('a prompt is continued, and texts become numbers in their order', async () => {
    assert.equal((await ask({ prompt: 'Hello' })).result.text, 'You said: Hello');
    const { result } = await ask({ input: ['a', 'bcd'] });
    assert.deepEqual(result.embeddings, [
      [1, 0.5],
      [3, 0.5],
    ]);
    assert.equal((await ask({ input: ['too few', 'b'] })).last.data.code, 'WORKER_PROTOCOL');
  });

  test('calls are streamed as they come and put together for the result', async () => {
    const tools = [{ type: 'function', function: { name: 'look' } }];
    const { events, result } = await ask({ messages: [{ role: 'user', content: 'tools' }], tools });
    assert.deepEqual(
      [result.finish_reason, result.tool_calls],
      ['tool_calls', [{ id: 'c1', type: 'function', function: { name: 'look', arguments: '{"far":true}' } }]],
    );
    const deltas = events.flatMap(({ event, data }) => (event === 'token' ? data.delta.tool_calls : []));
    assert.deepEqual(
      deltas.map((delta) => delta.function.arguments),
      ['', '{"far":', 'true}'],
    );
  });

  test('a server that keeps its line open after the end is not waited for', async () => {
    assert.equal((await ask({ prompt: 'open after the end' })).result.text, 'all');
  });

  const bad: [string, string, boolean][] = [
    ['garbage', 'WORKER_PROTOCOL', false],
    ['wrong shape', 'WORKER_PROTOCOL', false],
    ['endless line', 'WORKER_PROTOCOL', false],
    ['endless answer', 'WORKER_PROTOCOL', false],
    ['no end', 'UNKNOWN_OUTCOME', false],
    ['no stream', 'WORKER_PROTOCOL', false],
    ['redirect', 'WORKER_PROTOCOL', false],
    ['cut', 'UNKNOWN_OUTCOME', false],
    ['error inside', 'EXECUTION_FAILED', true],
    ['broken', 'EXECUTION_FAILED', true],
    ['bad request', 'EXECUTION_FAILED', false],
    ['wrong key', 'EXECUTION_FAILED', false],
    ['too long', 'CONTEXT_TOO_LONG', false],
    ['loading', 'WORKER_BUSY', true],
    ['limited', 'RATE_LIMITED', true],
  ];
  for (const [what, code, retriable] of bad) {
    test(`a server with "${what}" is ${code}`, async () => {
      const { last } = await ask({ prompt: what });
      assert.deepEqual([last.event, last.data.code, last.data.retriable], ['error', code, retriable]);
      if (what === 'limited') assert.equal(last.data.retry_after_ms, 7000);
    });
  }

  test('a cancel lets go of the server at once, whether it speaks or not', async () => {
    for (const what of ['hang', 'silence']) {
      const stream = await worker.line.execute(`${what}:1`, { prompt: what });
      await until(() => upstream.heard.some(({ body }) => body.prompt === what));
      if (what === 'hang') await stream.until('token');
      assert.equal((await worker.line.cancel(`${what}:1`)).body.is, 'stopping');
      assert.equal((await stream.until('error')).data.code, 'CANCELLED');
      await until(() => upstream.heard.some(({ body, left }) => body.prompt === what && left));
    }
  });

  test('neither the key nor a prompt is in the log', async () => {
    const log = await worker.saw('out', /an execution ended/);
    assert.ok(!log.includes(KEY) && !log.includes('Hello there'));
  });
});

/** Prints the process of the server and serves. */
const command = (script: string): string[] => [
  '--engine',
  'openai',
  '--model',
  'up',
  '--upstream-command',
  JSON.stringify(['sh', '-c', script, 'sh', process.execPath, FAKE, '{port}', '{model}']),
];

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};

/** A server that starts another process beside itself, as engines do. */
const PAIR = 'sleep 600 & echo "pids: $$ $!" >&2; exec "$1" "$2" "$3"';

test('a server that the worker has started ends with it, with all that it started, even when the worker is killed', async (t) => {
  for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
    const worker = await readyWorker(t, command(PAIR));
    const said = await worker.saw('err', /pids: \d+ \d+/);
    const pids = (/pids: (\d+) (\d+)/.exec(said) ?? []).slice(1).map(Number);
    assert.ok(pids.length === 2 && pids.every(isAlive));
    assert.equal((await worker.line.outcome('a:1', { prompt: 'Hello' })).data.result.text, 'You said: Hello');
    await worker.line.ack('a:1');
    worker.child.kill(signal);
    const { code } = await worker.ended;
    if (signal === 'SIGTERM') assert.equal(code, 0);
    await until(() => !pids.some(isAlive));
  }
});

test('a worker whose server has ended is over too', async (t) => {
  const worker = await readyWorker(t, command('echo "pid: $$" >&2; exec "$1" "$2" "$3"'));
  const [, pid] = /pid: (\d+)/.exec(await worker.saw('err', /pid: \d+/)) ?? [];
  process.kill(Number(pid), 'SIGKILL');
  const { code, err } = await worker.ended;
  assert.equal(code, 1);
  assert.match(err, /the upstream server has ended/);
});

test('a server that cannot be started is exit 1, with a sentence', async () => {
  const { code, err, out } = await start(['worker', ...command('exit 3')]).ended;
  assert.equal(code, 1);
  assert.match(err, /the upstream server ended before it answered/);
  assert.match(out, /"error_code":"WORKER_START_FAILED"/);
});
