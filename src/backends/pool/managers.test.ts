import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import type { PoolsListener } from '../../core/ports.ts';
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
  url = '';

  async start(t: TestContext): Promise<this> {
    const server = createServer((request, response) => {
      this.asked.push(`${request.method} ${request.url?.split('?')[0]}`);
      const mayAsk = this.token === undefined || request.headers.authorization === `Bearer ${this.token}`;
      response.writeHead(mayAsk ? 200 : 401, { 'content-type': 'application/json' });
      const { id: pool_id, version } = this;
      response.end(JSON.stringify({ pool_id, registry: 'r', version, gpus: [], workers: [] }));
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    t.after(() => {
      server.closeAllConnections();
      server.close();
    });
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    return this;
  }
}

/** Which pools are there, and which are waited for. */
class Listener implements PoolsListener {
  readonly up = new Set<string>();
  readonly waited = new Set<string>();

  reported({ id }: { readonly id: string }): void {
    this.up.add(id);
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
