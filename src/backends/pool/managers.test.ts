import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import type { Backend, BackendListener } from '../../core/ports/backend.ts';
import type { PoolsListener } from '../../core/ports/pools.ts';
import { realEnv } from '../../kit/env/real.ts';
import { createLogger } from '../../kit/logger.ts';
import type { OrchdError } from '../../model/errors.ts';
import { HttpPoolManagers } from './managers.ts';
import { PoolHosts } from './pool-hosts.ts';

const WHO = { owner: 'o', epoch: 1 };
const ORDER = { id: 'w', pool: 'p', device: 0, modelRef: 'demo:x', vramBytes: 1 };

/** A pool manager that answers every poll at once, with the state that its fields describe. */
class ImmediatePool {
  id = 'p';
  token: string | undefined;
  version = 1;
  /** Method and path of every request received. */
  readonly requests: string[] = [];
  /** The bodies of the requests that have one. */
  readonly bodies: unknown[] = [];
  /** The address of its worker; undefined if that is its own. */
  workerUri: string | undefined;
  /** Open connections with the URL of their last request: to the pool, and to its worker at the same port. */
  readonly open = new Map<Socket, string>();
  /** How many devices it reports. */
  devices = 0;
  /** The registry of its one worker; undefined: it has none. */
  worker: string | undefined;
  url = '';

  async start(t: TestContext, host = '127.0.0.1'): Promise<this> {
    const server = createServer((request, response) => {
      this.requests.push(`${request.method} ${request.url?.split('?')[0]}`);
      request.on('data', (body: Buffer) => this.bodies.push(JSON.parse(body.toString())));
      const isAuthorized =
        this.token === undefined || request.headers.authorization === `Bearer ${this.token}`;
      response.writeHead(isAuthorized ? 200 : 401, { 'content-type': 'application/json' });
      response.end(JSON.stringify(request.url === '/executions' ? NO_EXECUTIONS : this.#state()));
      this.open.set(request.socket, request.url ?? '');
    });
    server.on('connection', (socket) => socket.on('close', () => this.open.delete(socket)));
    server.listen(0, host);
    await once(server, 'listening');
    t.after(() => {
      server.closeAllConnections();
      server.close();
    });
    this.url = `http://${host}:${(server.address() as AddressInfo).port}`;
    return this;
  }

  /** The worker has the same address as the pool, unless `workerUri` is set. */
  #state(): object {
    const { id: pool_id, version, worker: registry } = this;
    const uri = this.workerUri ?? this.url;
    const worker = { id: 'w', model_ref: 'demo:x', gpu: 0, vram_used: 1, started_at: '', status: 'ready' };
    const workers = registry === undefined ? [] : [{ ...worker, uri, registry }];
    const memory = { total_vram: 1, allocated_vram: 0, available_vram: 1 };
    const gpus = Array.from({ length: this.devices }, (_, id) => ({ id, ...memory, workers: [] }));
    return { pool_id, registry: 'r', version, gpus, workers };
  }
}

const NO_EXECUTIONS = { registry: 'w', remembered_since: 0, executions: [] };

/** Records which pools are up, which are awaited, and the workers of the last report. */
class Listener implements PoolsListener, BackendListener {
  readonly up = new Set<string>();
  readonly waited = new Set<string>();
  /** Why the reports of the pool that was lost last were refused. */
  problem: string | undefined;
  workers: readonly Backend[] = [];
  #present: Backend[] = [];

  present(worker: Backend): void {
    this.#present.push(worker);
  }

  gone(): void {
    throw new Error('the end of a worker is seen in the report of its pool');
  }

  free(): void {}

  reported({ id }: { readonly id: string }): void {
    this.up.add(id);
    this.workers = this.#present.splice(0);
  }

  lost(id: string, problem?: string): void {
    this.problem = problem;
    this.up.delete(id);
  }

  awaited(name: string, awaited: boolean): void {
    if (awaited) this.waited.add(name);
    else this.waited.delete(name);
  }
}

const start = (t: TestContext, ...urls: string[]) => startWith(t, { urls });

interface StartOptions {
  readonly urls?: readonly string[];
  readonly secret?: string;
  readonly hosts?: PoolHosts;
  readonly workerHosts?: readonly string[];
}

function startWith(
  t: TestContext,
  { urls = [], secret, hosts = new PoolHosts([]), workerHosts = [] }: StartOptions,
): { managers: HttpPoolManagers; listener: Listener; logged: string[] } {
  const logged: string[] = [];
  const managers = new HttpPoolManagers({
    env: realEnv(),
    logger: createLogger({ write: (line) => logged.push(line), now: () => 0 }),
    pools: urls.map((url) => ({ url, secret })),
    maxAgeMs: 200,
    startTimeoutMs: 1000,
    registrationHosts: hosts,
    allowedWorkerHosts: workerHosts,
    maxStreams: 4,
  });
  const listener = new Listener();
  managers.watch(listener);
  managers.start(listener);
  t.after(() => managers.stop());
  return { managers, listener, logged };
}

async function until(condition: () => boolean, message: string): Promise<void> {
  for (let tries = 0; !condition(); tries++) {
    assert.ok(tries < 500, message);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

const errorCodeOf = (run: () => void): string | undefined => {
  try {
    run();
    return undefined;
  } catch (error) {
    return (error as OrchdError).code;
  }
};

test('a pool whose token has changed is reached again once it has registered', async (t) => {
  const pool = await new ImmediatePool().start(t);
  pool.token = 'one';
  const { managers, listener } = start(t);
  managers.register(pool.url, 'one', 'p');
  await until(() => listener.up.has('p'), 'the pool reports');
  managers.register(pool.url, 'wrong', 'p');
  assert.ok(listener.up.has('p'), 'a registration does not displace a pool that answers');
  pool.token = 'two';
  await until(() => !listener.up.has('p'), 'it refuses us');
  managers.register(pool.url, 'two', 'p');
  await until(() => listener.up.has('p'), 'the pool reports again');
});

test('a registration does not replace the secret that is configured for a pool, also while the pool is down', async (t) => {
  const pool = await new ImmediatePool().start(t);
  pool.token = 'not ready yet';
  const { managers, listener } = startWith(t, { urls: [pool.url], secret: 'right' });
  await until(() => pool.requests.length > 1, 'it is polled');
  managers.register(pool.url, 'wrong', 'another name');
  managers.register(`${pool.url}/`, undefined, 'p');
  pool.token = 'right';
  await until(() => listener.up.has('p'), 'the pool is reached with the configured secret');
});

test('a configured pool without a configured secret gets the one that it registers', async (t) => {
  const pool = await new ImmediatePool().start(t);
  pool.token = 'its own';
  const { managers, listener } = start(t, pool.url);
  await until(() => pool.requests.length > 1, 'it is polled');
  managers.register(pool.url, 'its own', 'p');
  await until(() => listener.up.has('p'), 'the pool reports');
});

test('a pool that begins to report more than it may is lost, and the log says why, once', async (t) => {
  const pool = await new ImmediatePool().start(t);
  const { listener, logged } = start(t, pool.url);
  await until(() => listener.up.has('p'), 'the pool reports');
  pool.devices = 65;
  pool.version++;
  await until(() => !listener.up.has('p'), 'its reports are refused');
  assert.match(listener.problem ?? '', /refused: "gpus" must not have more than 64 items/);
  const refusals = logged.filter((line) => line.includes('what a pool manager reports is refused'));
  assert.equal(refusals.length, 1);
  assert.match(refusals[0] ?? '', /"pool_id":"p".*must not have more than 64 items/);
  pool.devices = 64;
  await until(() => listener.up.has('p'), 'the pool reports again');
});

test('a pool that reports a new name no longer gets orders for the former name', async (t) => {
  const pool = await new ImmediatePool().start(t);
  const { managers, listener } = start(t);
  managers.register(pool.url, undefined, 'p');
  await until(() => listener.up.has('p'), 'the pool reports');
  pool.id = 'q';
  pool.version++;
  await until(() => listener.up.has('q'), 'the pool reports its new name');
  assert.deepEqual([...listener.up], ['q']);
  await assert.rejects(managers.startWorker(ORDER as never, WHO), /cannot be reached/);
});

test('a second pool with the same name is refused while the first answers', async (t) => {
  const [first, second] = [await new ImmediatePool().start(t), await new ImmediatePool().start(t)];
  const { managers, listener } = start(t);
  managers.register(first.url, undefined, 'p');
  await until(() => listener.up.has('p'), 'the pool reports');
  assert.equal(
    errorCodeOf(() => managers.register(second.url, undefined, 'p')),
    'ILLEGAL_STATE',
  );
  assert.deepEqual([managers.clientOf('p').url, second.requests], [first.url, []]);
  // The first no longer answers: the second is taken for the same pool at a new address.
  first.token = 'nobody knows it';
  await until(() => !listener.up.has('p'), 'it does not answer');
  managers.register(second.url, undefined, 'p');
  await until(() => listener.up.has('p'), 'the pool reports from its new address');
  assert.equal(managers.clientOf('p').url, second.url);
});

test('a registration with an invalid address changes nothing', async (t) => {
  const pool = await new ImmediatePool().start(t);
  const { managers, listener } = start(t, pool.url);
  await until(() => listener.up.has('p'), 'the pool reports');
  for (const url of ['http://127.0.0.1:1/?x=1', 'http://a:b@127.0.0.1:1']) {
    assert.ok(errorCodeOf(() => managers.register(url, undefined, 'p')));
    assert.ok(errorCodeOf(() => managers.register(url, undefined, 'new')));
  }
  assert.deepEqual([managers.clientOf('p').url, [...listener.waited]], [pool.url, []]);
});

test('a pool that is configured with one address and registers another is awaited once', async (t) => {
  const pool = await new ImmediatePool().start(t);
  const { managers, listener } = start(t, pool.url);
  managers.register(pool.url.replace('127.0.0.1', 'localhost'), undefined, 'p');
  await until(() => listener.up.has('p') && listener.waited.size === 0, 'it is no longer awaited');
});

test('a pool that ignores wait_ms is polled with a pause', async (t) => {
  const pool = await new ImmediatePool().start(t);
  start(t, pool.url);
  await until(() => pool.requests.length > 0, 'it is polled');
  const [before, since] = [pool.requests.length, performance.now()];
  await until(() => pool.requests.length >= before + 10, 'it is polled again');
  assert.ok(performance.now() - since >= 50, 'ten polls have pauses between them');
});

test('a replaced worker backend keeps no connection, and can still be called', async (t) => {
  const pool = await new ImmediatePool().start(t);
  pool.worker = 'one';
  const { listener } = start(t, pool.url);
  await until(() => listener.workers.length > 0, 'its worker is reported');
  const [former] = listener.workers as [Backend];
  const connections = (): number => [...pool.open.values()].filter((url) => url === '/executions').length;
  await former.inspect([], WHO);
  assert.equal(connections(), 1);
  pool.worker = 'two';
  pool.version++;
  await until(
    () => listener.workers[0] !== former && connections() === 0,
    'the connection of the former backend is closed',
  );
  await former.inspect([], WHO);
  await until(() => connections() === 0, 'a later call keeps no connection either');
});

test('[ORCH-1061] [ORCH-1062] a worker is called at its `uri`, by the same backend until that changes', async (t) => {
  const [pool, first, second] = (await Promise.all(
    ['127.0.0.1', '127.0.0.2', '127.0.0.3'].map((host) => new ImmediatePool().start(t, host)),
  )) as [ImmediatePool, ImmediatePool, ImmediatePool];
  pool.worker = 'w';
  pool.workerUri = first.url;
  const { listener } = startWith(t, { urls: [pool.url], workerHosts: ['127.0.0.2', '127.0.0.3'] });
  await until(() => listener.workers.length > 0, 'its worker is reported');
  const [former] = listener.workers as [Backend];
  const polls = (): number => pool.requests.length;
  for (let turn = 0; turn < 3; turn++) {
    const before = polls();
    pool.version++;
    await until(() => polls() > before + 2, 'another state is reported');
    assert.equal(listener.workers[0], former, 'its connections are kept');
    await former.inspect([], WHO);
  }
  assert.deepEqual(first.requests, Array(3).fill('GET /executions'));
  assert.equal(first.open.size, 1, 'over one connection');
  pool.workerUri = second.url;
  pool.version++;
  await until(() => listener.workers[0] !== former, 'the new address is reported');
  await listener.workers[0]?.inspect([], WHO);
  assert.deepEqual(second.requests, ['GET /executions']);
  assert.ok(!pool.requests.includes('GET /executions'), 'its manager is not asked');
});

test('[ORCH-1040] a start is ordered of the pool manager with the reference of the model and the device', async (t) => {
  const pool = await new ImmediatePool().start(t);
  const { managers, listener } = start(t, pool.url);
  await until(() => listener.up.has('p'), 'it is up');
  const unset = { vramGuessed: undefined, slots: undefined, contextLength: undefined };
  await managers.startWorker({ ...ORDER, ...unset, device: 3, modelRef: 'file:/models/m.gguf' }, WHO);
  assert.ok(pool.requests.includes('POST /v2/workers/start'));
  const [{ model_ref, gpu_id } = assert.fail()] = pool.bodies as { model_ref: string; gpu_id: number }[];
  assert.deepEqual([model_ref, gpu_id], ['file:/models/m.gguf', 3]);
});

/** Resolves made-up names; every one that was asked for is recorded. */
function resolver(names: Record<string, string>) {
  const asked: string[] = [];
  const resolve = async (host: string) => {
    asked.push(host);
    return [{ address: names[host] ?? '192.0.2.1', family: 4 }];
  };
  return { asked, resolve };
}

test('a pool registers at an allowed host only; any other is neither resolved nor asked', async (t) => {
  const pool = await new ImmediatePool().start(t);
  const port = new URL(pool.url).port;
  const { asked, resolve } = resolver({ 'gpu.example': '127.0.0.1', 'evil.example': '127.0.0.1' });
  const { managers, listener } = startWith(t, {
    hosts: new PoolHosts(['gpu.example', '10.0.0.0/8'], resolve),
  });
  const foreign = [
    'evil.example',
    '192.0.2.1',
    '169.254.169.254',
    '[::ffff:169.254.169.254]',
    '0.0.0.0',
    '0',
  ];
  for (const host of foreign) {
    assert.throws(() => managers.register(`http://${host}:${port}`, undefined, 'p'), {
      code: 'FORBIDDEN',
      message: /pools\.allowed_hosts/,
      details: { reason: 'pool_host' },
    });
  }
  assert.deepEqual([[...listener.waited], asked, pool.requests], [[], [], []]);
  managers.register(`http://gpu.example:${port}`, undefined, 'p');
  await until(() => listener.up.has('p'), 'the pool at an allowed host reports');
});

test('an allowed name that resolves to an address of metadata, or of this machine as 0.0.0.0, is not connected to', async (t) => {
  const pool = await new ImmediatePool().start(t);
  const { port } = new URL(pool.url);
  const { asked, resolve } = resolver({ 'gpu.example': '0.0.0.0', 'other.example': '127.0.0.1' });
  const hosts = new PoolHosts(['gpu.example', 'other.example'], resolve);
  const { managers, listener } = startWith(t, { hosts });
  managers.register(`http://gpu.example:${port}`, undefined, 'q');
  await until(() => asked.filter((host) => host === 'gpu.example').length > 1, 'its name was resolved again');
  assert.deepEqual(pool.requests, []);
  managers.register(`http://other.example:${port}`, undefined, 'p');
  await until(() => listener.up.has('p'), 'the other is connected to');
  const metadata = [
    '169.254.169.254',
    '::ffff:169.254.169.254',
    'fe80::1',
    'fd00:ec2::254',
    '224.0.0.1',
    '::',
  ];
  for (const address of metadata) {
    const found = async () => [{ address, family: address.includes(':') ? 6 : 4 }];
    assert.deepEqual(await new PoolHosts(['x.example'], found).resolve('x.example'), [], address);
    assert.equal(
      (await new PoolHosts([address], found).resolve('x.example')).length,
      1,
      `${address} is listed`,
    );
  }
});

test('pools that never answer are bounded in number', async (t) => {
  const { managers } = start(t);
  const register = (n: number): void => managers.register(`http://127.0.0.1:${n}`, undefined, `p${n}`);
  for (let n = 1; n <= 100; n++) register(n);
  assert.throws(() => register(101), { code: 'ADMISSION_REJECT', retriable: true });
  register(100);
});
