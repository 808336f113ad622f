/** The server on standard input and output, with a real brain behind it: hostile input, cancelled calls, the end of input. */
import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import { type TestContext, test } from 'node:test';
import { cliBrain, until } from '../../test/flow/cli-process.ts';
import { OrchdClient } from '../client/client.ts';
import { realEnv } from '../kit/env/real.ts';
import { MAX_LINE_BYTES, MAX_REQUESTS, McpStdio } from './mcp-stdio.ts';

interface Message {
  readonly id?: number | string | null;
  readonly method?: string;
  readonly result?: { readonly structuredContent?: Record<string, unknown>; readonly isError?: boolean };
  readonly error?: { readonly code: number; readonly message: string };
}

async function stage(t: TestContext) {
  const brain = await cliBrain();
  t.after(() => brain.stop());
  const input = new PassThrough();
  const said: Message[] = [];
  const { clock, timers } = realEnv();
  const server = new McpStdio({
    input,
    write: async (line) => {
      assert.ok(line.endsWith('\n') && line.indexOf('\n') === line.length - 1, 'a message is one line');
      said.push(JSON.parse(line));
    },
    exchange: {
      version: '1',
      brain: new OrchdClient({ url: brain.url }),
      clock,
      timers,
      newId: () => 'made',
      mayUse: () => true,
    },
  });
  const ended = server.run();
  t.after(async () => {
    input.end();
    await ended;
  });
  const send = (message: object | string): void => {
    const text = typeof message === 'string' ? message : JSON.stringify({ jsonrpc: '2.0', ...message });
    input.write(`${text}\n`);
  };
  const call = (id: number, name: string, args: object, meta = {}): void =>
    send({ id, method: 'tools/call', params: { name, arguments: args, _meta: meta } });
  const answerTo = async (id: number | null): Promise<Message> => {
    const found = (): Message | undefined => said.find((each) => each.method === undefined && each.id === id);
    await until(() => found() !== undefined);
    return found() as Message;
  };
  return { brain, input, said, send, call, answerTo, ended };
}

test('what is no message is answered with what is wrong, and the next one is served', async (t) => {
  const { said, send, answerTo } = await stage(t);
  const wrong = [
    '{"jsonrpc":',
    'hello',
    '[]',
    '5',
    '{"__proto__": 1}',
    '{"jsonrpc":"2.0","id":{},"method":"ping"}',
  ];
  for (const line of wrong) send(line);
  send(`"${'x'.repeat(MAX_LINE_BYTES)}"`);
  send('');
  send({ method: 'notifications/initialized' });
  send({ method: 'notifications/cancelled', params: { requestId: 'nobody' } });
  send({ id: 9, result: {} });
  send({ id: 1, method: 'no/such' });
  send({ id: 2, method: 'ping' });
  assert.deepEqual((await answerTo(2)).result, {});
  assert.equal((await answerTo(1)).error?.code, -32601);
  const refused = said.filter(({ id }) => id === null).map(({ error }) => error?.code);
  assert.deepEqual(refused, [-32700, -32700, -32600, -32600, -32700, -32600, -32600]);
  assert.match(said.at(wrong.length)?.error?.message ?? '', /larger than/);
  assert.equal(said.length, wrong.length + 3, 'notifications and answers get no answer');
});

test('a call that is cancelled gets no answer, and its job goes on', { timeout: 120_000 }, async (t) => {
  const { brain, said, send, call, answerTo } = await stage(t);
  call(1, 'submit_job', { type: 'held', payload: 1, job_id: 'j' });
  await answerTo(1);
  call(2, 'wait_for_job', { job_id: 'j', wait_ms: 50_000 }, { progressToken: 'p' });
  await until(() => said.some(({ method }) => method === 'notifications/progress'));
  send({ id: 2, method: 'ping' });
  assert.equal((await answerTo(2)).error?.code, -32600, 'the id is in use');
  send({ method: 'notifications/cancelled', params: { requestId: 2 } });
  brain.gate.open();
  call(3, 'wait_for_job', { job_id: 'j' });
  const { result } = await answerTo(3);
  assert.equal(result?.structuredContent?.['state'], 'succeeded');
  assert.equal(said.filter(({ id }) => id === 2).length, 1, 'only the refusal');
});

test('only so many requests are answered at one time; the others are refused, and the end of input ends all', async (t) => {
  const { brain, input, call, send, answerTo, ended } = await stage(t);
  call(0, 'submit_job', { type: 'nobody', job_id: 'j' });
  const refused = (await answerTo(0)).result?.structuredContent?.['error'] as { code: string; next: string };
  assert.equal(refused.code, 'ADMISSION_REJECT');
  assert.match(refused.next, /wait_for_backend/);
  call(-1, 'submit_job', { type: 'held', payload: 1, job_id: 'j' });
  await answerTo(-1);
  for (let id = 1; id <= MAX_REQUESTS; id++) call(id, 'wait_for_job', { job_id: 'j', wait_ms: 50_000 });
  send({ id: 1000, method: 'ping' });
  assert.match((await answerTo(1000)).error?.message ?? '', /not answered yet/);
  input.end();
  await ended;
  brain.gate.open();
});
