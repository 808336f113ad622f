/**
 * A worker for tests of those who use one: listens, calls ready, answers /health, and misbehaves as the name of its
 * model says: `demo:never-ready`, `demo:deaf+stubborn` and so on.
 */
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { parseArgs } from 'node:util';

const { values } = parseArgs({
  strict: false,
  options: {
    id: { type: 'string' },
    'model-ref': { type: 'string' },
    'pool-manager': { type: 'string' },
    host: { type: 'string' },
  },
});
const id = String(values.id);
const ref = String(values['model-ref']);
const how = new Set(ref.replace(/^\w+:/, '').split('+'));
const token = process.env['ORCHD_WORKER_TOKEN'] ?? '';
let active = 0;
let draining = false;
let cancels = 0;

if (how.has('exits')) {
  console.error(`cannot load the model, the token is ${token}`);
  process.exit(3);
}
process.on('SIGTERM', () => {
  if (!how.has('stubborn')) process.exit(0);
});

/** Answers to an execution, by the name of the worker's model. */
const SAYS: Readonly<Record<string, (response: ServerResponse) => void>> = {
  garbage: (response) => response.end('id: 1\nevent: token\ndata: {"t": \n\n'),
  nameless: (response) => response.end('event: surprise\ndata: {}\n\n'),
  unnumbered: (response) => response.end('event: token\ndata: {"t": "x", "i": 0}\n\n'),
  strange: (response) =>
    response.end(
      'id: 1\nevent: error\ndata: {"code":"GPU_ON_FIRE","message":"it burns","retriable":false}\n\n',
    ),
  /** Begins, and never ends; told to cancel, it says for ever that it is stopping. */
  unstoppable(response) {
    response.write('id: 1\nevent: token\ndata: {"t": "x", "i": 0}\n\n');
  },
  endless(response) {
    const line = 'x'.repeat(65_536);
    const more = (): void => {
      while (!response.destroyed && response.write(line));
    };
    response.on('drain', more).write('id: 1\nevent: token\ndata: ');
    more();
  },
};

const server = createServer((request, response) => {
  const answer = (status: number, body: object): void => {
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  };
  // For the test, which plays the brain.
  if (request.url === '/busy') active = 1;
  if (request.url === '/idle') active = 0;
  if (request.url === '/exit') process.exit(7);
  if (request.url === '/deaf') how.add('deaf');
  if (request.url === '/drain') draining = true;
  if (request.url === '/env') return answer(200, { env: process.env, argv: process.argv.slice(2) });
  if (request.url === '/health' && how.has('deaf')) return;
  if (request.headers.authorization !== `Bearer ${token}`) return answer(401, {});
  const says = [...how].map((name) => SAYS[name]).find(Boolean);
  if (request.url === '/cancel' && how.has('unstoppable')) {
    cancels++;
    return answer(202, { is: 'stopping', registry: 'r1', remembered_since: 0 });
  }
  if (request.url === '/cancels') return answer(200, { cancels });
  if (request.url === '/execute' && says) {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    return says(response);
  }
  answer(200, {
    status: draining ? 'draining' : active > 0 ? 'busy' : 'ready',
    worker_id: id,
    model: ref,
    vram_bytes: 1,
    uptime_seconds: 1,
    slots: 2,
    active,
    context_length: 512,
    registry: 'r1',
    draining,
  });
});

server.listen(0, '127.0.0.1', async () => {
  if (how.has('never-ready')) return;
  const { port } = server.address() as AddressInfo;
  const body = {
    worker_id: how.has('wrong-id') ? 'nobody' : id,
    model_ref: how.has('wrong-model') ? 'demo:other' : ref,
    uri: how.has('foreign') ? 'http://192.0.2.1:80' : `http://127.0.0.1:${port}`,
    vram_bytes: how.has('greedy') ? Number.MAX_SAFE_INTEGER : how.has('large') ? 300 * 2 ** 20 : 1000,
    slots: 2,
    context_length: 512,
    registry: 'r1',
    features: ['chat'],
  };
  const headers = {
    'content-type': 'application/json',
    authorization: `Bearer ${how.has('wrong-secret') ? 'x'.repeat(64) : token}`,
  };
  for (let attempt = 0; attempt < 200; attempt++) {
    const url = `${values['pool-manager']}/v2/internal/workers/ready`;
    const status = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) }).then(
      (response) => response.status,
      () => 0,
    );
    console.error(`ready: ${status}`);
    if (status !== 0) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
});
