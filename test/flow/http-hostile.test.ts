/** Callers that mean no good, and bytes that are no requests: a clear refusal or a closed socket, never a 5xx. */

import assert from 'node:assert/strict';
import { request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { after, before, test } from 'node:test';
import { makeToken } from '../../src/wire/tokens.ts';
import { engineOf } from '../fakes/engine-of.ts';
import { type HttpBrain, httpBrain } from '../fakes/http-brain.ts';
import { SeededRandom } from '../fakes/world.ts';

let brain: HttpBrain;
const limits = {
  headersTimeoutMs: 300,
  requestTimeoutMs: 600,
  idleMs: 1500,
  maxConnections: 50,
  maxBodyBytes: 100_000,
};

before(async () => {
  brain = await httpBrain({ limits, config: 'orchestrator: { queue_capacity: 50 }' });
});
after(() => brain.stop());

interface Answer {
  readonly status: number;
  readonly body: string;
}

/** With headers exactly as given: fetch would correct them. */
function send(
  path: string,
  headers: Record<string, string>,
  body?: string,
  method = 'GET',
  port = brain.port,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const sent = request({ host: '127.0.0.1', port, path, method, headers, agent: false }, (response) => {
      let text = '';
      response.on('data', (chunk) => {
        text += chunk;
      });
      response.on('end', () => resolve({ status: response.statusCode ?? 0, body: text }));
    });
    sent.on('error', reject);
    sent.end(body);
  });
}

/** Raw bytes in, all that comes back until the socket closes. */
function raw(bytes: string | Buffer, end = false): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(brain.port, '127.0.0.1', () => {
      socket.write(bytes);
      if (end) socket.end();
    });
    let text = '';
    socket.on('data', (chunk) => {
      text += chunk;
    });
    socket.on('error', () => undefined);
    socket.on('close', () => resolve(text));
  });
}

const codeOf = (body: string): string => (JSON.parse(body) as { error: { code: string } }).error.code;
const JSON_TYPE = { 'content-type': 'application/json' };

test('[ORCH-1130] a foreign Host or Origin is refused on every route, loopback or not', async () => {
  for (const path of ['/leader', '/v2/tasks', '/v2/tasks/x/events', '/metrics', '/nowhere']) {
    for (const headers of [
      { host: 'evil.example' },
      { host: 'localhost.evil.example' },
      { host: '127.0.0.1@evil' },
    ]) {
      assert.equal((await send(path, headers)).status, 403, `${path} ${headers.host}`);
    }
    const foreign = await send(path, { host: `127.0.0.1:${brain.port}`, origin: 'https://evil.example' });
    assert.equal(foreign.status, 403);
    assert.equal((await send(path, { host: `127.0.0.1:${brain.port}`, origin: 'null' })).status, 403);
  }
});

test('probes are answered under any host name, but not to pages of other origins', async () => {
  for (const path of ['/health', '/ready']) {
    for (const host of ['10.0.0.7:8080', 'orchd.default.svc', 'evil.example'])
      assert.equal((await send(path, { host })).status, 200, `${path} ${host}`);
    assert.equal((await send(path, { host: 'evil.example', origin: 'https://other.example' })).status, 403);
  }
});

test('a page of another site reads nothing through a browser, and so cancels nothing', async () => {
  await brain.orchestrator.submit({ job_id: 'interactive', type: 'nobody-does', priority: 'interactive' });
  const { state } = engineOf(brain.orchestrator);
  const before = state.seq;
  for (const { method, path, role } of brain.routes) {
    if (method !== 'GET') continue;
    const target = path.replaceAll(/:\w+/g, 'interactive');
    for (const site of ['cross-site', 'same-site', 'cross-site, same-origin']) {
      for (const mode of ['no-cors', 'navigate']) {
        const { status, body } = await send(target, { 'sec-fetch-site': site, 'sec-fetch-mode': mode });
        if (role === 'public') assert.equal(status, 200, `${path}: a link or a health check`);
        else assert.deepEqual([status, codeOf(body)], [403, 'FORBIDDEN'], `${path} ${site} ${mode}`);
      }
    }
  }
  assert.equal(state.seq, before);
  for (const site of ['same-origin', 'none'])
    assert.equal((await send('/v2/tasks', { 'sec-fetch-site': site })).status, 200);
  const allowed = await httpBrain({ origins: ['https://tools.example'] });
  try {
    const headers = { 'sec-fetch-site': 'cross-site', origin: 'https://tools.example' };
    assert.equal((await send('/v2/tasks', headers, undefined, 'GET', allowed.port)).status, 200);
  } finally {
    await allowed.stop();
  }
});

test('a request names one host, once or twice the same, and every refusal has our format', async () => {
  const host = `127.0.0.1:${brain.port}`;
  const cases: [string, number, string | undefined][] = [
    [`GET /v2/tasks HTTP/1.1\r\nhost: ${host}\r\nhost: ${host}\r\n`, 400, 'INVALID_PARAMS'],
    [`GET /v2/tasks HTTP/1.1\r\nhost: ${host}\r\nHost: evil.example\r\n`, 400, 'INVALID_PARAMS'],
    ['GET /v2/tasks HTTP/1.1\r\n', 400, 'INVALID_PARAMS'],
    ['GET /health HTTP/1.0\r\n', 400, 'INVALID_PARAMS'],
    [`GET http://evil.example/v2/tasks HTTP/1.1\r\nhost: ${host}\r\n`, 403, 'FORBIDDEN'],
    [`GET http://evil.example@${host}/v2/tasks HTTP/1.1\r\nhost: ${host}\r\n`, 403, 'FORBIDDEN'],
    [`GET http://127.0.0.1:1/v2/tasks HTTP/1.1\r\nhost: ${host}\r\n`, 403, 'FORBIDDEN'],
    ['GET http://evil.example/v2/tasks HTTP/1.1\r\nhost: evil.example\r\n', 403, 'FORBIDDEN'],
    [`GET http://${host}/v2/tasks?limit=1 HTTP/1.1\r\nhost: ${host}\r\n`, 200, undefined],
    [`GET http://${host} HTTP/1.1\r\nhost: ${host}\r\n`, 404, 'NOT_FOUND'],
    [`OPTIONS * HTTP/1.1\r\nhost: ${host}\r\n`, 404, 'NOT_FOUND'],
    [`GET /v2/tasks HTTP/1.1\r\nhost: ${host}\r\nexpect: a miracle\r\n`, 400, 'INVALID_PARAMS'],
  ];
  for (const [head, status, code] of cases) {
    const answer = await raw(`${head}connection: close\r\n\r\n`);
    assert.match(answer, new RegExp(`^HTTP/1.1 ${status} `), head);
    const body = JSON.parse(answer.slice(answer.indexOf('\r\n\r\n') + 4)) as { error?: { code: string } };
    assert.equal(body.error?.code, code, head);
  }
});

test('malformed, wrong, deep and large bodies get a 4xx with a code, and nothing changes', async () => {
  const before = engineOf(brain.orchestrator).state.seq;
  const cases: [string, string][] = [
    ['{', 'INVALID_PARAMS'],
    ['', 'INVALID_PARAMS'],
    ['null', 'INVALID_PARAMS'],
    ['[]', 'INVALID_PARAMS'],
    ['"x"', 'INVALID_PARAMS'],
    ['{"prompt": 1}', 'INVALID_PARAMS'],
    ['{"prompt": "a", "payload": 1}', 'INVALID_PARAMS'],
    ['{"job_id": "../../etc"}', 'INVALID_PARAMS'],
    ['{"priority": "urgent"}', 'INVALID_PARAMS'],
    ['{"temperature": 1e999}', 'INVALID_PARAMS'],
    ['{"__proto__": {"x": 1}}', 'INVALID_PARAMS'],
    [`${'['.repeat(5000)}${']'.repeat(5000)}`, 'INVALID_PARAMS'],
    [`{"payload": ${'['.repeat(70)}${']'.repeat(70)}}`, 'INVALID_PARAMS'],
    [`{"payload": "${'x'.repeat(200_000)}"}`, 'TOO_LARGE'],
  ];
  for (const [body, code] of cases) {
    const answer = await send('/v2/tasks', JSON_TYPE, body, 'POST');
    assert.equal(codeOf(answer.body), code, body.slice(0, 60));
    assert.ok(answer.status >= 400 && answer.status < 500);
  }
  const broken = await raw(
    Buffer.concat([
      Buffer.from(
        'POST /v2/tasks HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: 3\r\n\r\n',
      ),
      Buffer.from([0x22, 0xff, 0x22]),
    ]),
  );
  assert.match(broken, /^HTTP\/1.1 400/);
  assert.equal(engineOf(brain.orchestrator).state.seq, before);
});

test('a body that is packed is refused as such', async () => {
  for (const encoding of ['gzip', 'br', 'identity, gzip']) {
    const headers = { ...JSON_TYPE, 'content-encoding': encoding };
    const { status, body } = await send('/v2/tasks', headers, '{}', 'POST');
    assert.deepEqual([status, codeOf(body)], [415, 'UNSUPPORTED_MEDIA_TYPE'], encoding);
    assert.match(body, /Content-Encoding/);
  }
  const plain = { ...JSON_TYPE, 'content-encoding': 'Identity' };
  assert.equal(
    (await send('/v2/tasks', plain, '{"type":"nobody-does","wait_for_backend":true}', 'POST')).status,
    202,
  );
});

test('unknown jobs, bad cursors, wrong methods and paths are told apart', async () => {
  const expected: [string, string, number, string][] = [
    ['GET', '/v2/tasks/nothing', 404, 'NOT_FOUND'],
    ['GET', '/v2/tasks/%2e%2e%2fetc', 404, 'NOT_FOUND'],
    ['GET', '/v2%2ftasks', 404, 'NOT_FOUND'],
    ['GET', '/v2/tasks/nothing/events', 404, 'NOT_FOUND'],
    ['POST', '/v2/tasks/nothing/cancel', 404, 'NOT_FOUND'],
    ['GET', '/v2/tasks?cursor=abc', 400, 'INVALID_PARAMS'],
    ['GET', '/v2/tasks?limit=0', 400, 'INVALID_PARAMS'],
    ['GET', '/v2/tasks?limit=1e9', 400, 'INVALID_PARAMS'],
    ['GET', '/v2/tasks?state=asleep', 400, 'INVALID_PARAMS'],
    ['GET', '/v2/tasks?what=1', 400, 'INVALID_PARAMS'],
    ['PUT', '/v2/tasks', 405, 'METHOD_NOT_ALLOWED'],
    ['GET', '/v3', 404, 'NOT_FOUND'],
  ];
  for (const [method, path, status, code] of expected) {
    const answer = await send(path, {}, undefined, method);
    assert.deepEqual([answer.status, codeOf(answer.body)], [status, code], `${method} ${path}`);
  }
});

test('half a request and then silence is answered and closed; a header that is too large too', async () => {
  const half = await raw('POST /v2/tasks HTTP/1.1\r\nhost: localhost\r\ncontent-le');
  assert.match(half, /^HTTP\/1.1 408 Request Timeout\r/);
  const slowBody = await raw(
    'POST /v2/tasks HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 50\r\n\r\n{"pro',
  );
  assert.match(slowBody, /^HTTP\/1.1 408/);
  const large = await raw(`GET /health HTTP/1.1\r\nhost: localhost\r\nx: ${'y'.repeat(20_000)}\r\n\r\n`);
  assert.match(large, /^HTTP\/1.1 413 Payload Too Large\r/);
  const junk = await raw('\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03');
  assert.match(junk, /^HTTP\/1.1 400 Bad Request\r/);
});

test('junk behind a request whose answer is under way ends the connection, and is not answered within it', async () => {
  await brain.orchestrator.submit({ job_id: 'watched', type: 'nobody-does' });
  const asked = 'GET /v2/tasks/watched/events HTTP/1.1\r\nhost: localhost\r\n\r\n';
  const stream = await new Promise<string>((resolve) => {
    const socket = connect(brain.port, '127.0.0.1', () => socket.write(asked));
    let text = '';
    socket.on('data', (chunk) => {
      if (text === '') socket.write('no request\r\n\r\n');
      text += chunk;
    });
    socket.on('error', () => undefined);
    socket.on('close', () => resolve(text));
  });
  assert.match(stream, /^HTTP\/1.1 200/);
  assert.doesNotMatch(stream, /HTTP\/1.1 400/);
  const body = '{"job_id":"piped","type":"nobody-does","wait_for_backend":true}';
  const submit = `POST /v2/tasks HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
  assert.doesNotMatch(await raw(`${submit}${submit}no request\r\n\r\n`), /HTTP\/1.1 400/);
});

test('a caller that leaves during its upload is no failure of ours', async () => {
  const head =
    'POST /v2/tasks HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n';
  await raw(`${head}{"pr`, true);
  const socket = connect(brain.port, '127.0.0.1', () =>
    socket.write(`${head}{"pr`, () => setImmediate(() => socket.resetAndDestroy())),
  );
  await new Promise((resolve) => socket.on('close', resolve));
  assert.equal((await send('/health', {})).status, 200);
  const failures = brain.logged.filter((line) => line.includes('"error"'));
  assert.deepEqual(failures, []);
});

test('idle sockets beyond the limit are closed, and the server answers again when they go', async () => {
  const sockets: Socket[] = [];
  for (let at = 0; at < 200; at++) {
    const socket = connect(brain.port, '127.0.0.1');
    socket.on('error', () => undefined);
    socket.resume();
    sockets.push(socket);
  }
  await Promise.all(sockets.map((socket) => new Promise((resolve) => socket.on('close', resolve))));
  assert.equal((await send('/health', {})).status, 200);
});

test('[ORCH-1130] only an exact token is a token', async () => {
  const random = new SeededRandom(5);
  const { token, entry } = makeToken(random, 0, 'tester', 'submit');
  const guarded = await httpBrain({ tokens: [entry] });
  try {
    const status = async (authorization: string | undefined, path = '/v2/tasks'): Promise<number> =>
      (await send(path, authorization === undefined ? {} : { authorization }, undefined, 'GET', guarded.port))
        .status;
    assert.equal(await status(`Bearer ${token}`), 200);
    assert.equal(await status(undefined), 401);
    const last = token.at(-1) === '0' ? '1' : '0';
    const wrong = [
      token,
      `Basic ${token}`,
      `Bearer ${token.slice(0, -1)}${last}`,
      `Bearer ${token}0`,
      `Bearer ${token.toUpperCase()}`,
      `Bearer  ${token}`,
      'Bearer ',
      'Bearer null',
      `Bearer ${entry.hash}`,
      `Bearer orchd_${entry.id}_${entry.hash}`,
    ];
    for (const authorization of wrong) assert.equal(await status(authorization), 401, authorization);
    for (let at = 0; at < 300; at++) {
      const length = random.int(90);
      const text = Array.from({ length }, () => String.fromCharCode(33 + random.int(94))).join('');
      assert.equal(await status(`Bearer ${text}`), 401, text);
    }
    const redrive = await send(
      '/v2/tasks/x/redrive',
      { authorization: `Bearer ${token}` },
      undefined,
      'POST',
      guarded.port,
    );
    assert.equal(redrive.status, 403);
    assert.equal(await status(undefined, '/health'), 200);
  } finally {
    await guarded.stop();
  }
});
