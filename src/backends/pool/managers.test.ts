import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import type { Backend, BackendListener } from '../../core/ports/backend.ts';
import type { PoolsListener } from '../../core/ports/pools.ts';
import { realEnv } from '../../kit/env/real.ts';
import type { OrchdError } from '../../model/errors.ts';
import { HttpPoolManagers } from './managers.ts';

const WHO = { owner: 'o', epoch: 1 };
const ORDER = { id: 'w', pool: 'p', device: 0, modelRef: 'demo:x', vramBytes: 1 };

/** A pool manager that answers every poll at once, with the state that its fields describe. */
class ImmediatePool {
  id = 'p';
  token: string | undefined;
  version = 1;
  /** Method and path of every request received. */
  readonly requests: string[] = [];
  /** Open connections with the URL of their last request: to the pool, and to its worker at the same port. */
  readonly open = new Map<Socket, string>();
  /** The registry of its one worker; undefined: it has none. */
  worker: string | undefined;
  url = '';

  async start(t: TestContext): Promise<this> {
    const server = createServer((request, response) => {
      this.requests.push(`${request.method} ${request.url?.split('?')[0]}`);
      const isAuthorized =
        this.token === undefined || request.headers.authorization === `Bearer ${this.token}`;
      response.writeHead(isAuthorized ? 200 : 401, { 'content-type': 'application/json' });
      response.end(JSON.stringify(request.url === '/executions' ? NO_EXECUTIONS : this.#state()));
      this.open.set(request.socket, request.url ?? '');
    });
    server.on('connection', (socket) => socket.on('close', () => this.open.delete(socket)));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    t.after(() => {
      server.closeAllConnections();
      server.close();
    });
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    return this;
  }

  /** The worker has the same address as the pool. */
  #state(): object {
    const { id: pool_id, version, worker: registry, url: uri } = this;
    const worker = { id: 'w', model_ref: 'demo:x', gpu: 0, vram_used: 1, started_at: '', status: 'ready' };
    const workers = registry === undefined ? [] : [{ ...worker, uri, registry }];
    return { pool_id, registry: 'r', version, gpus: [], workers };
  }
}

const NO_EXECUTIONS = { registry: 'w', remembered_since: 0, executions: [] };

/** Records which pools are up, which are awaited, and the workers of the last report. */
class Listener implements PoolsListener, BackendListener {
  readonly up = new Set<string>();
  readonly waited = new Set<string>();
  workers: readonly Backend[] = [];
  #present: Backend[] = [];

  present(worker: Backend): void {
    this.#present.push(worker);
  }

  gone(): void {
    throw new Error('the end of a worker is seen in the report of its pool');
  }

  reported({ id }: { readonly id: string }): void {
    this.up.add(id);
    this.workers = this.#present.splice(0);
  }

  lost(id: string): void {
    this.up.delete(id);
  }

  awaited(name: string, awaited: boolean): void {
    if (awaited) this.waited.add(name);
    else this.waited.delete(name);
  }
}

function start(t: TestContext, ...urls: string[]): { managers: HttpPoolManagers; listener: Listener } {
  const managers = new HttpPoolManagers({
    env: realEnv(),
    logger: undefined,
    pools: urls.map((url) => ({ url, secret: undefined })),
    maxAgeMs: 200,
    startTimeoutMs: 1000,
    allowedHosts: [],
    maxStreams: 4,
  });
  const listener = new Listener();
  managers.watch(listener);
  managers.start(listener);
  t.after(() => managers.stop());
  return { managers, listener };
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
