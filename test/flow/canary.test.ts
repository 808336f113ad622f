/** Secrets and prompts through every door of a server that logs all it can: not one byte of them in its log. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { OrchdClient } from '../../src/client/client.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { createLogger } from '../../src/kit/logger.ts';
import type { SubmitRequest } from '../../src/model/submit.ts';
import { LOOPBACK_HOSTS } from '../../src/wire/access-gate.ts';
import { HttpServer } from '../../src/wire/http-server.ts';
import { jsonLines, orchd, type Ran, until } from './cli-process.ts';
import { type ServerProcess, serve, testFolder } from './server-process.ts';

/** A text of its own for every door: one that leaks says where it came in. */
class Canaries {
  readonly #doors = new Map<string, string>();

  /** Letters and digits only, so that it passes as any kind of name. */
  at(door: string): string {
    const known = this.#doors.get(door) ?? `canary${this.#doors.size}x${'f00d'.repeat(4)}`;
    this.#doors.set(door, known);
    return known;
  }

  add(door: string, secret: string): void {
    this.#doors.set(door, secret);
  }

  get count(): number {
    return this.#doors.size;
  }

  leakedInto(text: string): string[] {
    return [...this.#doors].filter(([, canary]) => text.includes(canary)).map(([door]) => door);
  }
}

const TYPES = ['says', 'fails', 'crashes', 'lingers', 'missing', 'nowhere'] as const;

function configWith(canaries: Canaries): object {
  const at = (door: string): string => canaries.at(door);
  const env = { API_KEY: at('environment of a command') };
  const sh = (script: string): object => ({ argv: ['sh', '-c', script, at('argument of a command')], env });
  const types: Record<(typeof TYPES)[number], object> = {
    says: sh(`cat; echo ${at('output of a command')}; echo ${at('stderr of a good command')} >&2`),
    fails: sh(`echo ${at('stderr of a failed command')} >&2; echo "$API_KEY" >&2; exit 65`),
    crashes: sh(`echo ${at('stderr of a killed command')} >&2; kill -9 $$`),
    lingers: sh(`echo ${at('output before a timeout')}; exec sleep 600`),
    missing: { argv: [`/nowhere/${at('program that is not there')}`] },
    nowhere: { argv: ['true'], cwd: `/nowhere/${at('folder that is not there')}` },
  };
  return {
    log: { level: 'debug' },
    orchestrator: { retry: { base_delay_ms: 1, jitter: 0 }, queue: { max_payload_bytes: 50_000 } },
    backends: { demo: true, commands: [{ name: 'work', slots: 4, types }] },
  };
}

interface Sent {
  readonly method?: string;
  readonly path: string;
  readonly headers?: Record<string, string>;
  readonly body?: string | Buffer;
}

/** As it is given, without a client that would correct it; returns the status, whatever it is. */
async function send({ port }: ServerProcess, { body, path, ...sent }: Sent): Promise<number> {
  const outgoing = request({ host: '127.0.0.1', port, path, agent: false, ...sent });
  outgoing.end(body);
  const [response] = await once(outgoing, 'response');
  response.resume();
  await once(response, 'close');
  return response.statusCode;
}

/** Bytes that need not be a request; settles when the server has closed the connection. */
async function sendRaw({ port }: ServerProcess, bytes: string): Promise<void> {
  const socket = connect(Number(port), '127.0.0.1');
  socket.on('error', () => undefined).resume();
  socket.end(bytes);
  await once(socket, 'close');
}

const JSON_TYPE = { 'content-type': 'application/json' };

/** All that a request to run a job can hold, but for what the log is there to name: job, session and model. */
function submits(canaries: Canaries): SubmitRequest[] {
  const at = (door: string): string => canaries.at(door);
  const all: SubmitRequest[] = [
    { prompt: at('prompt') },
    { messages: [{ role: at('role of a message'), content: at('content of a message') }] },
    { type: 'says', payload: { [at('name in a payload')]: at('value in a payload') } },
    { type: 'says', payload: `${at('large payload')}${'x'.repeat(10_000)}` },
    { key: at('key'), agent: at('agent'), type: at('type that nothing runs'), priority: 'interactive' },
    { prompt: 'x', labels: { [at('name of a label')]: at('value of a label') } },
    { prompt: 'x', backend: at('kind of backend') },
    { type: 'lingers', timeout_ms: 200, max_tries: 1 },
    ...TYPES.filter((type) => type !== 'lingers').map((type) => ({ type, max_tries: 2 })),
  ];
  return all.map((ask, at) => ({ job_id: `job-${at}`, ...ask }));
}

function refusedRequests(canaries: Canaries): Sent[] {
  const at = (door: string): string => canaries.at(door);
  const post = (body: string | Buffer, headers: Record<string, string> = JSON_TYPE): Sent => ({
    method: 'POST',
    path: '/v2/tasks',
    headers,
    body,
  });
  const bodies = [
    `{"prompt": "${at('broken JSON')}`,
    `{"job_id": "../${at('job id that is none')}"}`,
    `{"${at('unknown field')}": 1}`,
    `{"prompt": ["${at('field of the wrong kind')}"]}`,
    `{"priority": "${at('value that is no choice')}"}`,
    `{"__proto__": {"x": "${at('key of prototypes')}"}}`,
    `"${at('text in place of a request')}"`,
    `{"payload": "${at('payload that is too large')}${'x'.repeat(60_000)}"}`,
    `[{"prompt": "${at('good one of many')}"}, {"${at('bad one of many')}": 2}]`,
    `${'['.repeat(70)}"${at('body that is too deep')}"${']'.repeat(70)}`,
  ];
  const paths = [
    `/v2/tasks/${at('unknown job')}`,
    `/v2/tasks/${at('unknown job of a stream')}/events`,
    `/v2/tasks/%20${at('id that is none')}`,
    `/${at('unknown path')}/x`,
    `/v2/tasks?key=${at('query')}`,
    `/v2/tasks?state=${at('state in a query')}`,
    `/v2/tasks?cursor=${at('cursor')}`,
    `/v2/tasks?${at('unknown parameter')}=1`,
    `/v2/tasks/job-0/events?last_event_id=${at('event id in a query')}`,
  ];
  return [
    ...bodies.map((body) => post(body)),
    post(Buffer.concat([Buffer.from(`{"prompt": "${at('body that is no UTF-8')}`), Buffer.from([0xff])])),
    post(at('body of another type'), { 'content-type': `text/${at('content type')}` }),
    ...paths.map((path) => ({ path })),
    { method: 'DELETE', path: `/v2/tasks/${at('job of a wrong method')}` },
    { method: 'POST', path: `/v2/tasks/${at('unknown job to cancel')}/cancel` },
    {
      ...post(`{"as": "failed", "message": "${at('message of a resolve')}"}`),
      path: '/v2/tasks/job-0/resolve',
    },
    {
      ...post(`{"as": "succeeded", "result": "${at('result of a resolve')}"}`),
      path: '/v2/tasks/job-0/resolve',
    },
  ];
}

const HEADERS = [
  'cookie',
  'x-api-key',
  'user-agent',
  'referer',
  'idempotency-key',
  'last-event-id',
  'x-other',
];

function requestsWithHeaders(canaries: Canaries): Sent[] {
  const path = '/v2/tasks/job-0/events';
  const one = (name: string, value: string): Sent => ({ path, headers: { [name]: value } });
  return [
    ...HEADERS.map((name) => one(name, canaries.at(`header ${name}`))),
    one('authorization', `Bearer ${canaries.at('token that is none')}`),
    one('authorization', `Basic ${canaries.at('name and password')}`),
    one('origin', `https://${canaries.at('origin')}.example`),
    one('host', `${canaries.at('host')}.example`),
    one('x-correlation-id', `not an id ${canaries.at('correlation id that is none')}`),
  ];
}

/** Every door once; returns when all work that was let in has ended. */
async function pushAll(brain: ServerProcess, canaries: Canaries): Promise<void> {
  const client = new OrchdClient({ url: brain.url });
  const runs = submits(canaries);
  const waiting = runs.map((each) => ({ ...each, wait_for_backend: true }));
  for (const answer of await client.submitMany(waiting)) assert.equal(answer.http_status, 202);
  for (const sent of [...refusedRequests(canaries), ...requestsWithHeaders(canaries)]) {
    const status = await send(brain, sent);
    assert.ok(status < 500, `${sent.method ?? 'GET'} ${sent.path} was answered ${status}`);
  }
  await sendRaw(brain, `${canaries.at('bytes that are no request')}\r\n\r\n`);
  await sendRaw(brain, `GET / HTTP/1.1\r\nhost: localhost\r\nx: ${canaries.at('half a request')}`);
  await sendRaw(
    brain,
    `GET / HTTP/1.1\r\nhost: localhost\r\n: ${canaries.at('header without a name')}\r\n\r\n`,
  );
  // Jobs that no backend can run wait until they are cancelled; the others end by themselves.
  for (const at of [4, 5, 6]) await client.cancel(`job-${at}`);
  for (const { job_id } of runs) for await (const _ of client.events(job_id as string));
}

/** A token that is right, one that is nearly right, and what each may not do. */
async function pushTokens(t: TestContext, canaries: Canaries): Promise<Ran> {
  const data = join(testFolder(t), 'data');
  const made = await orchd(['token', 'create', 'reader', '--role', 'read', '--data', data]);
  const token = made.out.trim();
  const [, id, secret] = token.split('_') as [string, string, string];
  canaries.add('token', secret);
  const brain = await serve(t, { data, config: { log: { level: 'debug' } } });
  for (const given of [token, `orchd_${id}_${secret.toUpperCase()}`, `${token}0`, secret]) {
    const headers = { authorization: `Bearer ${given}`, ...JSON_TYPE };
    await send(brain, { path: '/v2/tasks', headers });
    await send(brain, { path: '/v2/tasks', method: 'POST', headers, body: '{"prompt":"x"}' });
    await send(brain, { path: `/v2/tasks?token=${given}` });
  }
  brain.child.kill('SIGTERM');
  return brain.ended;
}

test('[ORCH-1131] nothing that comes in by any door is in the log', { timeout: 120_000 }, async (t) => {
  const canaries = new Canaries();
  const data = join(testFolder(t), 'data');
  const config = configWith(canaries);
  const env = { SOME_SECRET: canaries.at('environment') };
  const brain = await serve(t, { data, config, env });
  await pushAll(brain, canaries);
  const metrics = await (await fetch(`${brain.url}/metrics`)).text();
  await brain.kill();
  // A second life reads all of it again, from the journal and from the executions.
  const again = await serve(t, { data, config, env });
  const client = new OrchdClient({ url: again.url });
  await until(async () => (await client.get('job-0')).state === 'succeeded');
  await client.redrive('job-9');
  for await (const _ of client.events('job-9'));
  again.child.kill('SIGTERM');
  await again.ended;
  // A third one has a gateway that does not answer, with which there is no demo model.
  const pool = { url: `http://localhost:1/${canaries.at('URL in the configuration')}` };
  const third = await serve(t, { data, config: { ...config, pool }, env });
  await third.saw('out', /the gateway cannot be used/);
  third.child.kill('SIGTERM');
  const lives = [await brain.ended, await again.ended, await third.ended, await pushTokens(t, canaries)];

  const log = lives.map(({ out }) => out).join('');
  const told = jsonLines(log);
  for (let at = 0; at < submits(canaries).length; at++)
    assert.ok(
      told.some((line) => line['job_id'] === `job-${at}`),
      `job-${at} is in the log`,
    );
  assert.ok(told.some((line) => line['error_code'] === 'EXECUTION_FAILED'));
  t.diagnostic(`${canaries.count} doors, ${told.length} lines of log`);
  assert.deepEqual(canaries.leakedInto(log), []);
  assert.deepEqual(canaries.leakedInto(lives.map(({ err }) => err).join('')), [], 'nor on standard error');
  assert.deepEqual(canaries.leakedInto(metrics), [], 'nor in the metrics');
});

test('[ORCH-1131] what is wrong in a configuration or its environment is named, not shown', async (t) => {
  const canaries = new Canaries();
  const file = join(testFolder(t), 'config.yaml');
  writeFileSync(
    file,
    `orchestrator: { queue_capacity: ${canaries.at('number')} }\npool: { url: "ftp://${canaries.at('URL')}" }\n`,
  );
  const env = { ORCHD_LOG_LEVEL: canaries.at('variable'), ORCHD_POOL_URL: canaries.at('URL in a variable') };
  for (const words of [['up', '--config', file], ['up']]) {
    const { code, out, err } = await orchd(words, { env });
    assert.equal(code, 2);
    assert.match(err, /ORCHD_LOG_LEVEL/);
    assert.deepEqual(canaries.leakedInto(out + err), []);
  }
});

test('[ORCH-1092] [ORCH-1120] [ORCH-1131] a fault of our own is logged with its place and without what it quotes', async (t) => {
  const env = realEnv();
  const lines: string[] = [];
  const handle = (): never => {
    throw new SyntaxError('Unexpected token, "canary" is not valid JSON');
  };
  const server = new HttpServer({
    host: '127.0.0.1',
    port: 0,
    random: env.random,
    timers: env.timers,
    logger: createLogger({ write: (line) => lines.push(line), now: () => 0, level: 'debug' }),
    gate: { allowedHosts: LOOPBACK_HOSTS, allowedOrigins: [], tokens: () => [], openWithoutTokens: true },
    routes: [
      {
        operationId: 'fail',
        tag: 'server',
        method: 'GET',
        path: '/',
        role: 'read',
        summary: '',
        answers: {},
        handle,
      },
    ],
  });
  await server.start();
  t.after(() => server.stop());
  const response = await fetch(`http://127.0.0.1:${server.port}/`);
  assert.equal(response.status, 500);
  const answer = await response.text();
  assert.doesNotMatch(answer, /canary/);
  assert.equal(JSON.parse(answer).error.code, 'INTERNAL');
  assert.equal(lines.length, 1);
  assert.equal(JSON.parse(lines[0]!).correlation_id, response.headers.get('x-correlation-id'));
  assert.match(lines[0]!, /"error_code":"INTERNAL","reason":"SyntaxError at .*canary\.test\.ts:\d+/);
  assert.doesNotMatch(lines[0]!.replaceAll('canary.test.ts', ''), /canary/);
});
