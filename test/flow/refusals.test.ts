/** Submits that are refused over HTTP: what the caller hears, and what the log says of them. */
import assert from 'node:assert/strict';
import { request } from 'node:http';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { makeToken } from '../../src/wire/tokens.ts';
import { type HttpBrain, type HttpBrainOptions, httpBrain } from '../fakes/http-brain.ts';
import { SeededRandom } from '../fakes/world.ts';
import { serve, testFolder } from './server-process.ts';

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into what came
  readonly body: any;
}

async function brainOf(t: TestContext, options: HttpBrainOptions): Promise<HttpBrain> {
  const brain = await httpBrain(options);
  t.after(() => brain.stop());
  return brain;
}

async function submit(
  { url }: HttpBrain,
  body: object,
  headers: Record<string, string> = {},
): Promise<Answer> {
  const response = await fetch(`${url}/v2/tasks`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });
  return { status: response.status, headers: response.headers, body: await response.json() };
}

/** For jobs that are to wait: nothing here runs them. */
const WAITS = { wait_for_backend: true };

interface LogLine {
  readonly message: string;
  readonly correlation_id?: string;
  readonly error_code?: string;
  readonly caller?: string;
  readonly tenant?: string;
  readonly reason?: string;
}

const linesAbout = (brain: HttpBrain, correlationId: string): LogLine[] =>
  brain.logged
    .map((line) => JSON.parse(line) as LogLine)
    .filter((line) => line.correlation_id === correlationId);

test('[ORCH-1132] a token that submits too fast is refused with the time to wait; another one is not', async (t) => {
  const random = new SeededRandom(1);
  const [first, second] = ['first', 'second'].map((name) => makeToken(random, 0, name, 'submit'));
  for (const [limit, body] of [
    ['requests_per_sec: 0.001, burst_requests: 2', { type: 'work', ...WAITS }],
    [
      'tokens_per_sec: 0.001, burst_tokens: 250',
      { type: 'inference', prompt: 'x', max_tokens: 100, ...WAITS },
    ],
  ] as const) {
    const brain = await brainOf(t, {
      tokens: [first!.entry, second!.entry],
      config: `limits: [{scope: "token:*", ${limit}}]`,
    });
    const by = ({ token }: { token: string }): Promise<Answer> =>
      submit(brain, body, { authorization: `Bearer ${token}` });
    const statuses = [(await by(first!)).status, (await by(first!)).status];
    assert.deepEqual(statuses, [202, 202], limit);
    const { status, headers, body: refusal } = await by(first!);
    assert.deepEqual(
      [status, refusal.error.code, refusal.error.retriable],
      [429, 'RATE_LIMITED', true],
      limit,
    );
    assert.ok(refusal.error.retry_after_ms > 0);
    assert.ok(Number(headers.get('retry-after')) > 0);
    assert.equal((await by(second!)).status, 202, limit);
  }
});

test('[ORCH-1092] a refused submit leaves a line with its correlation id and the reason, and so does each of a bulk', async (t) => {
  const brain = await brainOf(t, { config: 'orchestrator: { queue_capacity: 1 }' });
  assert.equal((await submit(brain, { type: 'work', ...WAITS })).status, 202);
  const alone = await submit(brain, { type: 'work', ...WAITS }, { 'x-correlation-id': 'alone' });
  assert.equal(alone.body.error.code, 'QUEUE_FULL');
  const [line, ...others] = linesAbout(brain, 'alone');
  assert.equal(line?.error_code, 'QUEUE_FULL');
  assert.match(line?.reason ?? '', /queue/);
  assert.deepEqual([line?.caller, line?.tenant], ['local', 'default']);
  assert.deepEqual(others, []);
  await submit(brain, [{ type: 'work', ...WAITS }, { model: 'demo' }], { 'x-correlation-id': 'bulk' });
  assert.deepEqual(
    linesAbout(brain, 'bulk').map(({ error_code }) => error_code),
    ['QUEUE_FULL', 'INVALID_PARAMS'],
  );
});

test('a job for a model that has nothing to do is refused', async (t) => {
  const brain = await brainOf(t, {
    backends: [{ name: 'b', slots: 1, models: ['demo'], types: { inference: async () => 'done' } }],
  });
  const { status, body } = await submit(brain, { model: 'demo', max_tokens: 5 });
  assert.deepEqual([status, body.error.code, body.error.field], [400, 'INVALID_PARAMS', 'prompt']);
  assert.equal((await submit(brain, {})).status, 400, 'the model need not be named');
  const both = { prompt: 'x', messages: [{ role: 'user', content: 'x' }] };
  assert.equal((await submit(brain, both)).body.error.field, 'messages');
  for (const content of [
    { prompt: '' },
    { messages: [{ role: 'user', content: 'x' }] },
    { payload: { input: ['x'] } },
  ])
    assert.equal((await submit(brain, { model: 'demo', ...content })).status, 202, JSON.stringify(content));
});

test('a job that nothing here could run is refused with the nearest name; one that says so waits, with a warning', async (t) => {
  const brain = await brainOf(t, {
    backends: [{ name: 'b', slots: 1, types: { resize: async () => 'done' } }],
  });
  const { status, body } = await submit(brain, { type: 'resise' });
  assert.deepEqual([status, body.error.code, body.error.reason], [422, 'ADMISSION_REJECT', 'no_backend']);
  assert.match(body.error.message, /did you mean "resize"\?/);
  const embedded = brain.orchestrator.submit({ type: 'resise', wait_for_backend: false });
  await assert.rejects(
    embedded,
    { code: 'ADMISSION_REJECT' },
    'a program that embeds orchd may ask for it too',
  );
  const waits = await submit(brain, { type: 'resise', job_id: 'later', wait_for_backend: true });
  assert.equal(waits.status, 202);
  assert.match(waits.body.warning, /nothing here runs the type "resise"/);
  const again = await submit(brain, { type: 'resise', job_id: 'later' });
  assert.deepEqual([again.status, again.body.duplicate_of], [202, 'job_id'], 'it is the same job');
  const bulk = await submit(brain, [{ type: 'resise' }, { type: 'resize' }]);
  assert.deepEqual(
    bulk.body.answers.map(({ http_status }: { http_status: number }) => http_status),
    [422, 202],
  );
});

test('a refused Host header is answered with the setting that allows it', async (t) => {
  const { url } = await serve(t, { data: join(testFolder(t), 'data') });
  const answerAs = (host: string): Promise<string> =>
    new Promise((resolve, reject) => {
      const asked = request(`${url}/v2/tasks`, { headers: { host } }, async (response) => {
        let text = '';
        for await (const piece of response) text += piece;
        resolve(`${response.statusCode} ${text}`);
      });
      asked.on('error', reject).end();
    });
  assert.match(await answerAs('gpu-box.local'), /^403 .*server\.allowed_hosts/);
  assert.match(await answerAs('1.2.3.4.example'), /^403 /);
  for (const address of ['192.0.2.2:8080', '[2001:db8::1]'])
    assert.match(await answerAs(address), /^200 /, 'no page can make an address of its own mean this server');
});
