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

/** A pool manager that says what it is told to say, and never waits for news. */
class HastyPool {
  id = 'p';
  token: string | undefined;
  version = 1;
  readonly asked: string[] = [];
  /** Its own connections, and those to the worker that it shows. */
  readonly open = new Map<Socket, string>();
  worker: string | undefined;
  url = '';

  async start(t: TestContext): Promise<this> {
    const server = createServer((request, response) => {
      this.asked.push(`${request.method} ${request.url?.split('?')[0]}`);
      const mayAsk = this.token === undefined || request.headers.authorization === `Bearer ${this.token}`;
      response.writeHead(mayAsk ? 200 : 401, { 'content-type': 'application/json' });
      response.end(JSON.stringify(request.url === '/executions' ? NOTHING : this.#state()));
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

  /** A worker of it is at the same place. */
  #state(): object {
    const { id: pool_id, version, worker: registry, url: uri } = this;
    const worker = { id: 'w', model_ref: 'demo:x', gpu: 0, vram_used: 1, started_at: '', status: 'ready' };
    const workers = registry === undefined ? [] : [{ ...worker, uri, registry }];
    return { pool_id, registry: 'r', version, gpus: [], workers };
  }
}

const NOTHING = { registry: 'w', remembered_since: 0, executions: [] };

/** Which pools are there, and which are waited for. */
class Listener implements PoolsListener, BackendListener {
  readonly up = new Set<string>();
  readonly waited = new Set<string>();
  workers: readonly Backend[] = [];
  #present: Backend[] = [];

  present(worker: Backend): void {
    this.#present.push(worker);
  }

  gone(): void {
    throw new Error('whether a worker is gone is for its pool to show');
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

function start(t: TestContext, ...urls: string[]): { managers: HttpPoolManagers; heard: Listener } {
  const managers = new HttpPoolManagers({
    env: realEnv(),
    logger: undefined,
    pools: urls.map((url) => ({ url, secret: undefined })),
    maxAgeMs: 200,
    startTimeoutMs: 1000,
    allowedHosts: [],
    maxStreams: 4,
  });
  const heard = new Listener();
  managers.watch(heard);
  managers.start(heard);
  t.after(() => managers.stop());
  return { managers, heard };
}

async function until(holds: () => boolean, what: string): Promise<void> {
  for (let tries = 0; !holds(); tries++) {
    assert.ok(tries < 500, what);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

const refused = (run: () => void): string | undefined => {
  try {
    run();
    return undefined;
  } catch (error) {
    return (error as OrchdError).code;
  }
};

test('a pool at the same place with another token is reached again once it has registered', async (t) => {
  const pool = await new HastyPool().start(t);
  pool.token = 'one';
  const { managers, heard } = start(t);
  managers.register(pool.url, 'one', 'p');
  await until(() => heard.up.has('p'), 'it is heard');
  managers.register(pool.url, 'wrong', 'p');
  assert.ok(heard.up.has('p'), 'one that answers is not given up for what somebody says');
  pool.token = 'two';
  await until(() => !heard.up.has('p'), 'it refuses us');
  managers.register(pool.url, 'two', 'p');
  await until(() => heard.up.has('p'), 'it is heard again');
});

test('a pool that has another name is no longer ordered about under the former one', async (t) => {
  const pool = await new HastyPool().start(t);
  const { managers, heard } = start(t);
  managers.register(pool.url, undefined, 'p');
  await until(() => heard.up.has('p'), 'it is heard');
  pool.id = 'q';
  pool.version++;
  await until(() => heard.up.has('q'), 'it is heard by its new name');
  assert.deepEqual([...heard.up], ['q']);
  await assert.rejects(managers.startWorker(ORDER as never, WHO), /cannot be reached/);
});

test('of two pools with one name the second is refused while the first answers', async (t) => {
  const [first, second] = [await new HastyPool().start(t), await new HastyPool().start(t)];
  const { managers, heard } = start(t);
  managers.register(first.url, undefined, 'p');
  await until(() => heard.up.has('p'), 'it is heard');
  assert.equal(
    refused(() => managers.register(second.url, undefined, 'p')),
    'ILLEGAL_STATE',
  );
  assert.deepEqual([managers.clientOf('p').url, second.asked], [first.url, []]);
  // The first is gone: now it can only have moved.
  first.token = 'nobody knows it';
  await until(() => !heard.up.has('p'), 'it does not answer');
  managers.register(second.url, undefined, 'p');
  await until(() => heard.up.has('p'), 'it is heard at its new place');
  assert.equal(managers.clientOf('p').url, second.url);
});

test('an address that cannot be called takes nothing away', async (t) => {
  const pool = await new HastyPool().start(t);
  const { managers, heard } = start(t, pool.url);
  await until(() => heard.up.has('p'), 'it is heard');
  for (const url of ['http://127.0.0.1:1/?x=1', 'http://a:b@127.0.0.1:1']) {
    assert.ok(refused(() => managers.register(url, undefined, 'p')));
    assert.ok(refused(() => managers.register(url, undefined, 'new')));
  }
  assert.deepEqual([managers.clientOf('p').url, [...heard.waited]], [pool.url, []]);
});

test('a pool that is configured under one address and registers under another is waited for once', async (t) => {
  const pool = await new HastyPool().start(t);
  const { managers, heard } = start(t, pool.url);
  managers.register(pool.url.replace('127.0.0.1', 'localhost'), undefined, 'p');
  await until(() => heard.up.has('p') && heard.waited.size === 0, 'nobody waits for it any more');
});

test('a pool that does not wait for news is not asked without a pause', async (t) => {
  const pool = await new HastyPool().start(t);
  start(t, pool.url);
  await until(() => pool.asked.length > 0, 'it is asked');
  const [before, since] = [pool.asked.length, performance.now()];
  await until(() => pool.asked.length >= before + 10, 'it is asked again');
  assert.ok(performance.now() - since >= 50, 'ten questions take their time');
});

test('a way to a worker that another one replaces keeps no connection, and is still one', async (t) => {
  const pool = await new HastyPool().start(t);
  pool.worker = 'one';
  const { heard } = start(t, pool.url);
  await until(() => heard.workers.length > 0, 'its worker is heard of');
  const [former] = heard.workers as [Backend];
  const asks = (): number => [...pool.open.values()].filter((url) => url === '/executions').length;
  await former.inspect([], WHO);
  assert.equal(asks(), 1);
  pool.worker = 'two';
  pool.version++;
  await until(() => heard.workers[0] !== former && asks() === 0, 'the former way is given up');
  await former.inspect([], WHO);
  await until(() => asks() === 0, 'nor does it keep another one');
});
