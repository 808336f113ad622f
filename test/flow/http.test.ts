/** The HTTP surface as a caller sees it. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { type TestContext, test } from 'node:test';
import { OrchdClient } from '../../src/client/client.ts';
import { OrchdError } from '../../src/model/errors.ts';
import type { ErrorBody } from '../../src/model/http/errors.ts';
import type { JobView } from '../../src/model/http/jobs.ts';
import { type HttpBrain, type HttpBrainOptions, httpBrain } from '../fakes/http-brain.ts';
import { onStores, placed, STORES } from './flow-kit.ts';

async function brainWith(t: TestContext, options: HttpBrainOptions = {}): Promise<HttpBrain> {
  const brain = await httpBrain(placed(options));
  t.after(() => brain.stop());
  return brain;
}

/** Work that ends when the test says so, or when it is aborted. */
function gated() {
  const started: string[] = [];
  const aborted: string[] = [];
  const opened = Promise.withResolvers<void>();
  const work = async (
    _payload: never,
    { jobId, signal, emit }: { jobId: string; signal: AbortSignal; emit(t: string): void },
  ) => {
    started.push(jobId);
    emit('first ');
    const stopped = new Promise<never>((_, reject) => {
      signal.addEventListener('abort', () => {
        aborted.push(jobId);
        reject(new Error('stopped'));
      });
    });
    await Promise.race([opened.promise, stopped]);
    emit('last');
    return 'done';
  };
  return { work, started, aborted, finish: () => opened.resolve() };
}

const post = (url: string, body: unknown, headers: Record<string, string> = {}): Promise<Response> =>
  fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });

async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await new Promise((resolve) => setImmediate(resolve));
}

test('the page about the API names every path that the server has, and no other', async (t) => {
  const brain = await brainWith(t);
  const { paths } = (await (await fetch(`${brain.url}/openapi.json`)).json()) as { paths: object };
  const page = readFileSync(new URL('../../docs/http-api.md', import.meta.url), 'utf8');
  // Inside code, with the shell's word for the id where it is a command to try.
  const written = page.matchAll(/(?:GET|POST|PUT|DELETE|\$API) ?(\/[\w/{}$.]*)/g);
  const named = new Set([...written].map(([, path]) => path?.replace(/\$(?:ID|BATCH)/, '{id}')));
  assert.deepEqual([...named].sort(), Object.keys(paths).sort());
});

/** For jobs that are to wait: nothing here runs them. */
const WAITS = { wait_for_backend: true };

onStores(
  'a submit is answered 202 with its place, and the job can be read, listed and followed to its end',
  STORES,
  async (t, data) => {
    const { work, finish } = gated();
    const brain = await brainWith(t, { data, backends: [{ name: 'b', types: { inference: work } }] });
    const client = new OrchdClient({ url: brain.url });
    const response = await post(`${brain.url}/v2/tasks`, { prompt: 'hello', job_id: 'one' });
    assert.equal(response.status, 202);
    const answer = (await response.json()) as Record<string, unknown>;
    assert.equal(answer['job_id'], 'one');
    assert.equal(answer['events_url'], '/v2/tasks/one/events');
    const events: string[] = [];
    for await (const { event } of client.events('one')) {
      events.push(event);
      if (event === 'token') finish();
    }
    assert.deepEqual(events, ['started', 'token', 'token', 'end']);
    const job: JobView = await client.get('one');
    assert.equal(job.state, 'succeeded');
    assert.equal(job.result, 'done');
    assert.deepEqual(
      (await client.list()).jobs.map(({ job_id }) => job_id),
      ['one'],
    );
  },
);

onStores(
  'up to 1,000 jobs go in one call with an answer each; one more is refused',
  STORES,
  async (t, data) => {
    const brain = await brainWith(t, { data });
    const client = new OrchdClient({ url: brain.url });
    const requests = Array.from({ length: 1000 }, (_, at) => ({ job_id: `b${at}`, payload: at, ...WAITS }));
    const answers = await client.submitMany([
      ...requests.slice(0, 999),
      { job_id: 'b0', payload: 'other', ...WAITS },
    ]);
    assert.equal(answers.filter(({ http_status }) => http_status === 202).length, 999);
    assert.equal(answers.at(-1)?.http_status, 409);
    await assert.rejects(client.submitMany([...requests, { payload: 1, ...WAITS }]), {
      code: 'INVALID_PARAMS',
    });
  },
);

onStores(
  '[ORCH-1011] what a request may need is estimated from its texts, and checked before it is queued',
  STORES,
  async (t, data) => {
    const brain = await brainWith(t, { data, config: 'sessions: { token_budget: 300 }' });
    const url = `${brain.url}/v2/tasks`;
    const refused = async (body: object): Promise<string> => {
      const { error } = (await (await post(url, { ...WAITS, ...body })).json()) as ErrorBody;
      return `${error.code} ${error.reason ?? ''}`.trim();
    };
    assert.equal(await refused({ model: 'm', prompt: 'hello' }), 'MODEL_NOT_FOUND');
    const model = { model_id: 'm', model_ref: 'demo:m', size_bytes: 1, context_length: 200 };
    assert.equal((await post(`${brain.url}/v2/catalog/models`, model)).status, 200);
    const long = 'a word '.repeat(1000);
    // A job that names no model gets the only one of the catalog, with its limits.
    for (const named of [{ model: 'm' }, {}]) {
      assert.equal(await refused({ ...named, prompt: long }), 'ADMISSION_REJECT context_length');
      const messages = [{ role: 'user', content: long }];
      assert.equal(await refused({ ...named, messages }), 'ADMISSION_REJECT context_length');
      const asksMuch = { ...named, prompt: 'hello', max_tokens: 200 };
      assert.equal(await refused(asksMuch), 'ADMISSION_REJECT context_length');
    }
    const turn = { model: 'm', prompt: 'hello', max_tokens: 180, session_id: 's' };
    assert.equal((await post(url, turn)).status, 202);
    assert.equal(await refused(turn), 'ADMISSION_REJECT token_budget');
    assert.equal((await brain.orchestrator.list()).jobs.length, 1, 'what was refused has left nothing');
  },
);

onStores(
  '[ORCH-1012] a full queue answers 429 with Retry-After, X-Backoff-Ms and what to do',
  STORES,
  async (t, data) => {
    const config = 'orchestrator: { queue_capacity: 2 }';
    const brain = await brainWith(t, { data, config });
    for (const payload of [1, 2])
      assert.equal((await post(`${brain.url}/v2/tasks`, { payload, ...WAITS })).status, 202);
    const response = await post(`${brain.url}/v2/tasks`, { payload: 3, ...WAITS });
    assert.equal(response.status, 429);
    const body = (await response.json()) as Record<string, unknown>;
    const waitMs = body['retry_after_ms'] as number;
    assert.ok(waitMs > 0);
    assert.equal(response.headers.get('x-backoff-ms'), String(waitMs));
    assert.equal(response.headers.get('retry-after'), String(Math.max(1, Math.ceil(waitMs / 1000))));
    assert.equal(body['policy_label'], 'reject');
    assert.equal(body['retriable'], true);
    assert.equal((body['error'] as { code: string }).code, 'QUEUE_FULL');
  },
);

onStores(
  '[ORCH-1013] the queue is measured: depth, admitted, refused and dropped jobs',
  STORES,
  async (t, data) => {
    const brain = await brainWith(t, {
      data,
      config: 'orchestrator: { queue_capacity: 2, queue_policy: drop-lru }',
      backends: [{ name: 'b', types: { fails: async () => Promise.reject(new Error('no')) } }],
    });
    const submit = async (job: object): Promise<number> =>
      (await post(`${brain.url}/v2/tasks`, { ...WAITS, prompt: 'x', ...job })).status;
    // Of the jobs that end dead, only those that were dropped count as dropped.
    assert.equal(await submit({ job_id: 'dead', type: 'fails', max_tries: 1 }), 202);
    assert.equal((await brain.orchestrator.wait('dead')).state, 'dead');
    for (const job_id of ['b1', 'b2']) assert.equal(await submit({ job_id }), 202);
    for (const job_id of ['i1', 'i2']) assert.equal(await submit({ job_id, priority: 'interactive' }), 202);
    assert.equal(await submit({ job_id: 'i1', priority: 'interactive' }), 202, 'the same job once more');
    assert.equal(await submit({ job_id: 'b3' }), 429, 'batch drops nothing that is interactive');
    assert.equal(await submit({ nonsense: true }), 400);
    await post(`${brain.url}/v2/tasks/i2/cancel`, {});
    assert.equal(await submit({ job_id: 'b4' }), 202);
    const text = await (await fetch(`${brain.url}/metrics`)).text();
    const value = (name: string): number =>
      text
        .split('\n')
        .filter((line) => line.startsWith(`${name} `) || line.startsWith(`${name}{`))
        .reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
    assert.equal(value('queue_depth'), 2, 'of both priorities');
    assert.equal(value('tasks_enqueued_total'), 6);
    assert.equal(value('tasks_rejected_total'), 2);
    assert.equal(value('tasks_dropped_total'), 2);
    const types = text.matchAll(/^# TYPE ((?:queue|tasks)_\w+) (\w+)$/gm);
    assert.deepEqual(Object.fromEntries(Array.from(types, ([, name, type]) => [name, type])), {
      queue_depth: 'gauge',
      tasks_enqueued_total: 'counter',
      tasks_rejected_total: 'counter',
      tasks_dropped_total: 'counter',
    });
  },
);

onStores(
  '[ORCH-1092] a correlation id is taken or made, answered, and in every line of the log about the request',
  STORES,
  async (t, data) => {
    const brain = await brainWith(t, {
      data,
      backends: [{ name: 'b', types: { inference: async () => 'x' } }],
    });
    const given = await post(
      `${brain.url}/v2/tasks`,
      { prompt: 'p', job_id: 'c1' },
      { 'x-correlation-id': 'trace-7' },
    );
    assert.equal(given.headers.get('x-correlation-id'), 'trace-7');
    const made = await fetch(`${brain.url}/v2/tasks/nothing`);
    const madeId = made.headers.get('x-correlation-id');
    assert.match(madeId ?? '', /^[0-9a-f]{16}$/);
    assert.equal(((await made.json()) as { error: { correlation_id: string } }).error.correlation_id, madeId);
    await brain.orchestrator.wait('c1');
    await until(() => brain.logged.some((line) => line.includes('"to":"succeeded"')));
    const lines = brain.logged.map((line) => JSON.parse(line)).filter((line) => line.job_id === 'c1');
    assert.ok(lines.length >= 4);
    for (const line of lines) assert.match(line.correlation_id, /^trace-7(\.1)?$/);
  },
);

onStores(
  '[FARRO-8] every move of a job is one JSON line with the standard fields',
  STORES,
  async (t, data) => {
    let tries = 0;
    const inference = async (): Promise<string> => {
      if (tries++ === 0) throw new OrchdError('WORKER_TIMEOUT');
      return 'x';
    };
    const bad = async (): Promise<never> => {
      throw new OrchdError('EXECUTION_FAILED');
    };
    const brain = await brainWith(t, {
      data,
      backends: [{ name: 'b', types: { inference, bad } }],
      config: 'orchestrator: { retry: { base_delay_ms: 1 } }',
    });
    const tasks = `${brain.url}/v2/tasks`;
    const linesOf = (id: string) =>
      brain.logged.map((line) => JSON.parse(line)).filter((line) => line.job_id === id);
    await post(tasks, { prompt: 'p', job_id: 'f1' }, { 'x-correlation-id': 'abc' });
    await brain.orchestrator.wait('f1');
    await until(() => linesOf('f1').some((line) => line.event?.to === 'succeeded'));
    const lines = linesOf('f1');
    const moves = lines.filter((line) => line.event.type === 'state_transition');
    assert.deepEqual(
      moves.map((line) => [line.event.from, line.event.to]),
      [
        ['queued', 'claimed'],
        ['claimed', 'running'],
        ['running', 'failed'],
        ['failed', 'queued'],
        ['queued', 'claimed'],
        ['claimed', 'running'],
        ['running', 'succeeded'],
      ],
    );
    for (const line of lines) {
      assert.match(line.timestamp, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
      assert.equal(line.app, 'orchd');
      assert.equal(line.actor, 'brain');
      assert.equal(line.level, 'info');
      assert.match(line.message, /^[A-Z].+\.$/);
    }
    const attempts = moves.map((line) => line.correlation_id);
    assert.deepEqual(attempts, [...Array(4).fill('abc.1'), ...Array(3).fill('abc.2')]);
    // A caller that gives no correlation id gets one, and a job that is dead is a warning.
    const made = await post(tasks, { type: 'bad', job_id: 'f2' });
    await brain.orchestrator.wait('f2');
    await until(() => linesOf('f2').some((line) => line.event?.to === 'dead'));
    const { level, correlation_id } = linesOf('f2').at(-1);
    assert.deepEqual([level, correlation_id], ['warn', `${made.headers.get('x-correlation-id')}.1`]);
    assert.match(correlation_id, /^[0-9a-f]{16}\.1$/);
    for (const line of brain.logged)
      assert.ok(line.endsWith('}\n') && line.indexOf('\n') === line.length - 1);
  },
);

onStores(
  '[ORCH-1072] an explicit cancel reaches the work at once and may be repeated; a stream ends with its error',
  STORES,
  async (t, data) => {
    const { work, started, aborted } = gated();
    const brain = await brainWith(t, { data, backends: [{ name: 'b', types: { inference: work } }] });
    const client = new OrchdClient({ url: brain.url });
    await client.submit({ prompt: 'p', job_id: 'k1' });
    const events: { event: string; data: unknown }[] = [];
    const following = (async () => {
      for await (const event of client.events('k1')) events.push(event);
    })();
    await until(() => events.length >= 2);
    await Promise.all([client.cancel('k1'), client.cancel('k1')]);
    await following;
    await client.cancel('k1');
    assert.deepEqual([started, aborted], [['k1'], ['k1']]);
    assert.equal(events.at(-1)?.event, 'error');
    assert.equal((events.at(-1) as { data: { code: string } }).data.code, 'CANCELLED');
    assert.equal((await client.get('k1')).state, 'cancelled');
  },
);

onStores(
  '[ORCH-1072] when the last follower has left an interactive job is cancelled, a batch job goes on',
  STORES,
  async (t, data) => {
    const { work, aborted, finish } = gated();
    const brain = await brainWith(t, {
      data,
      backends: [{ name: 'b', slots: 2, types: { inference: work } }],
      disconnectGraceMs: 1,
    });
    const client = new OrchdClient({ url: brain.url });
    // The batch job is left first: were it cancelled, it would be before the other one.
    for (const priority of ['batch', 'interactive'] as const) {
      await client.submit({ prompt: 'p', job_id: priority, priority });
      const leave = new AbortController();
      for await (const { event } of client.events(priority, { signal: leave.signal }))
        if (event === 'token') leave.abort();
    }
    await until(async () => (await client.get('interactive')).state === 'cancelled');
    assert.deepEqual(aborted, ['interactive']);
    finish();
    assert.equal((await brain.orchestrator.wait('batch')).state, 'succeeded');
  },
);

onStores(
  '[ORCH-1072] work that ignores its cancel is given up for the caller after the deadline, with an error event',
  STORES,
  async (t, data) => {
    const never = Promise.withResolvers<void>();
    const config = 'orchestrator: { cancel_deadline_ms: 20 }';
    const brain = await brainWith(t, {
      data,
      config,
      backends: [{ name: 'b', types: { inference: () => never.promise } }],
    });
    const client = new OrchdClient({ url: brain.url });
    await client.submit({ prompt: 'p', job_id: 'deaf' });
    await until(async () => (await client.get('deaf')).state === 'running');
    await client.cancel('deaf');
    const events: string[] = [];
    for await (const { event } of client.events('deaf')) events.push(event);
    assert.equal(events.at(-1), 'error');
    const job = await client.get('deaf');
    assert.equal(job.state, 'cancelled');
    assert.equal(
      job.attempts.at(-1)?.state,
      'accepted',
      'the attempt keeps its slot until the backend confirms',
    );
    never.resolve();
  },
);

onStores(
  'a stream resumes after any event, and a reader that has heard the end gets 204',
  STORES,
  async (t, data) => {
    const { work, finish } = gated();
    const brain = await brainWith(t, { data, backends: [{ name: 'b', types: { inference: work } }] });
    const client = new OrchdClient({ url: brain.url });
    await client.submit({ prompt: 'p', job_id: 'r1' });
    await until(async () => (await client.get('r1')).state === 'running');
    const resumed: (string | undefined)[] = [];
    const following = (async () => {
      for await (const { id } of client.events('r1', { after: '1.1' })) resumed.push(id);
    })();
    await until(() => resumed.length > 0);
    finish();
    await following;
    assert.deepEqual(resumed, ['1.2', '1.3', '1.end']);
    const again = await fetch(`${brain.url}/v2/tasks/r1/events`, { headers: { 'last-event-id': '1.end' } });
    assert.equal(again.status, 204);
  },
);

onStores('a follower gets a result of many megabytes with the end', STORES, async (t, data) => {
  const result = 'x'.repeat(5 * 2 ** 20);
  const brain = await brainWith(t, { data, backends: [{ name: 'b', types: { inference: () => result } }] });
  const client = new OrchdClient({ url: brain.url });
  await client.submit({ prompt: 'p', job_id: 'large' });
  let end: unknown;
  for await (const { event, data } of client.events('large', { patienceMs: 0 }))
    if (event === 'end') end = (data as { result: unknown }).result;
  assert.equal(end, result);
});

test('a follower gives up on a stream that it can never read, instead of asking for it again and again', async () => {
  let asked = 0;
  const endless = async (): Promise<Response> => {
    assert.equal(++asked, 1);
    const line = new Uint8Array(8 * 2 ** 20).fill(120);
    const body = new ReadableStream({ pull: (stream) => stream.enqueue(line) });
    return new Response(body, { headers: { 'content-type': 'text/event-stream' } });
  };
  const client = new OrchdClient({ fetch: endless });
  await assert.rejects(client.events('any', { patienceMs: 0 }).next(), { code: 'WORKER_PROTOCOL' });
});
