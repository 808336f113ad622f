/** 20,000 requests grown from a corpus by a seed: no 5xx, no crash, no growth without end. */
import assert from 'node:assert/strict';
import { connect, type Socket } from 'node:net';
import { test } from 'node:test';
import { type HttpBrain, httpBrain } from '../fakes/http-brain.ts';
import { SeededRandom } from '../fakes/world.ts';

const REQUESTS = 20_000;
const PER_SOCKET = 40;
const MAX_GROWTH_BYTES = 200 * 2 ** 20;

const BODIES = [
  '{"prompt":"hello","priority":"interactive"}',
  '{"payload":{"a":[1,2,{"b":null}]},"type":"work","key":"k","labels":{"gpu":"yes"}}',
  '{"messages":[{"role":"user","content":"hi"}],"max_tokens":5,"temperature":0.5,"seed":1}',
  '[{"prompt":"a"},{"prompt":"b","job_id":"x"},{"bad":true}]',
  '{"model":"tiny","messages":[{"role":"user","content":"hi"}],"max_tokens":5,"stream":true,"n":1}',
  '{"model":"tiny","input":["a","b"],"prompt":"c","encoding_format":"base64"}',
  '{"as":"failed","message":"no"}',
  '{}',
  '{"job_id":"same","payload":1,"deadline_ms":1,"timeout_ms":1,"not_before":1}',
];
const TARGETS = [
  'POST /v2/tasks',
  'GET /v2/tasks?limit=5&state=queued',
  'GET /v2/tasks/same',
  'GET /v2/tasks/same/events',
  'POST /v2/tasks/same/cancel',
  'POST /v2/tasks/same/redrive',
  'POST /v2/tasks/same/resolve',
  'POST /v1/chat/completions',
  'POST /v1/completions',
  'POST /v1/embeddings',
  'GET /v1/models/tiny',
  'GET /health',
  'GET /metrics',
  'GET /openapi.json',
  'DELETE /v2/tasks/same',
  'GET /v2/meta/capabilities',
];

function mutate(random: SeededRandom, text: string): string {
  let bytes = Buffer.from(text);
  for (let times = random.int(4); times > 0; times--) {
    const at = random.int(bytes.length + 1);
    const piece = Buffer.from(
      random.pick([
        '"',
        '{',
        '[',
        '\\',
        '\u0000',
        '\ud83d',
        'null',
        '1e400',
        '-0',
        '__proto__',
        '%00',
        '💥',
        ' '.repeat(50),
      ]),
    );
    const kind = random.int(4);
    if (kind === 0) bytes = Buffer.concat([bytes.subarray(0, at), piece, bytes.subarray(at)]);
    else if (kind === 1) bytes = Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + random.int(8))]);
    else if (kind === 2 && bytes.length > 0) bytes[Math.min(at, bytes.length - 1)] = random.int(256);
    else bytes = Buffer.concat([bytes.subarray(0, at), bytes.subarray(0, random.int(40))]);
  }
  return bytes.toString('latin1');
}

/** What would end a line of the head. */
function printable(text: string): string {
  return [...text].filter((character) => character > ' ' && character !== '\u007f').join('');
}

function grow(random: SeededRandom): Buffer {
  const [method, path] = random.pick(TARGETS).split(' ') as [string, string];
  const target = random.chance(0.3) ? printable(mutate(random, path)) || '/' : path;
  const body =
    method === 'POST' ? (random.chance(0.7) ? mutate(random, random.pick(BODIES)) : random.pick(BODIES)) : '';
  const headers = [`host: ${random.chance(0.98) ? 'localhost' : 'evil.example'}`];
  if (body !== '') headers.push(`content-type: ${random.chance(0.95) ? 'application/json' : 'text/plain'}`);
  if (random.chance(0.05)) headers.push(`last-event-id: ${printable(mutate(random, '1.5'))}`);
  if (random.chance(0.05)) headers.push(`x-correlation-id: ${printable(mutate(random, 'trace'))}`);
  if (random.chance(0.02)) headers.push(`authorization: ${printable(mutate(random, 'Bearer abc'))}`);
  const bytes = Buffer.from(body, 'latin1');
  headers.push(`content-length: ${bytes.length}`);
  const head = `${method} ${target.startsWith('/') ? target : `/${target}`} HTTP/1.1\r\n${headers.join('\r\n')}\r\n\r\n`;
  return Buffer.concat([Buffer.from(head, 'latin1'), bytes]);
}

/** Sends requests one after another on one connection; returns the status of each answer that came. */
async function burst(brain: HttpBrain, random: SeededRandom, count: number): Promise<number[]> {
  const statuses: number[] = [];
  const socket: Socket = connect(brain.port, '127.0.0.1');
  let answered: () => void = () => undefined;
  let closed = false;
  socket.on('data', (chunk) => {
    for (const match of chunk.toString('latin1').matchAll(/HTTP\/1\.1 (\d{3})/g))
      statuses.push(Number(match[1]));
    answered();
  });
  const end = (): void => {
    closed = true;
    answered();
  };
  socket.on('error', end);
  socket.on('close', end);
  for (let at = 0; at < count && !closed; at++) {
    const wait = new Promise<void>((resolve) => {
      answered = resolve;
    });
    socket.write(grow(random));
    await wait;
  }
  socket.destroy();
  return statuses;
}

test('20,000 mutated requests: no 5xx, no crash, memory bounded', { timeout: 300_000 }, async (context) => {
  const brain = await httpBrain({
    config: 'orchestrator: { queue_capacity: 200 }',
    backends: [
      { name: 'b', slots: 4, models: ['tiny'], types: { inference: async () => 'x', work: async () => 'y' } },
    ],
    disconnectGraceMs: 1,
  });
  const random = new SeededRandom(20261115);
  const seen = new Map<number, number>();
  try {
    await burst(brain, random, 500);
    const before = process.memoryUsage().rss;
    // A connection that was refused something is often closed: count answers, not requests.
    for (let answers = 0; answers < REQUESTS; ) {
      const statuses = await burst(brain, random, PER_SOCKET);
      answers += Math.max(1, statuses.length);
      for (const status of statuses) seen.set(status, (seen.get(status) ?? 0) + 1);
    }
    const growth = process.memoryUsage().rss - before;
    context.diagnostic(
      `answers ${JSON.stringify(Object.fromEntries([...seen].sort()))}, growth ${(growth / 2 ** 20).toFixed(0)} MiB`,
    );
    const failures = [...seen.keys()].filter((status) => status >= 500);
    assert.deepEqual(failures, []);
    assert.ok((seen.get(202) ?? 0) > 100, 'many of them are good requests');
    assert.ok(growth < MAX_GROWTH_BYTES, `memory grew by ${growth} bytes`);
    assert.equal(brain.orchestrator.failure, undefined);
    const errors = brain.logged.filter((line) => line.includes('"level":"error"'));
    assert.deepEqual(errors, []);
  } finally {
    await brain.stop();
  }
});
