/** The pool manager with real processes: what is ordered happens once, and what happens is said. */
import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { startPool } from '../../src/daemons/pool-manager/pool-manager.ts';
import { createLogger } from '../../src/kit/logger.ts';
import type { DeviceState } from '../../src/model/pool-wire.ts';
import { atEnd, CONFIG, livingOf, PoolCaller, pool, poolFolder } from '../fakes/pool-kit.ts';

const MIB = 2 ** 20;

test('a worker is started, becomes ready, is busy, drains and is stopped', async (t) => {
  const caller = await pool(t, poolFolder(t));
  const ordered = await caller.start('w1', 'demo:good');
  assert.deepEqual([ordered.status, ordered.body], [200, { worker_id: 'w1', status: 'starting' }]);
  const ready = await caller.becomes('w1', 'ready');
  assert.equal(ready.vram_used, 1000);
  assert.deepEqual(
    [ready.slots, ready.context_length, ready.registry, ready.features],
    [2, 512, 'r1', ['chat']],
  );
  const { gpus } = await caller.state();
  assert.deepEqual(gpus[0]?.workers, ['w1']);
  assert.equal(gpus[0]?.allocated_vram, 10 * MIB);
  assert.equal(gpus[0]?.available_vram, 990 * MIB);
  await fetch(`${ready.uri}/busy`);
  await caller.becomes('w1', 'busy');
  await fetch(`${ready.uri}/idle`);
  await caller.becomes('w1', 'ready');
  assert.equal((await caller.drain('w1')).body.status, 'draining');
  const health = await fetch(`${ready.uri}/health`, { headers: { authorization: `Bearer ${ready.token}` } });
  assert.equal(((await health.json()) as { draining: boolean }).draining, true, 'the worker was told');
  const state = await caller.state();
  assert.equal((await caller.stop('w1')).status, 200);
  await caller.goes('w1');
  assert.deepEqual(livingOf(state, 'w1'), []);
  assert.equal((await caller.state()).gpus[0]?.allocated_vram, 0);
  assert.deepEqual((await caller.stop('w1')).body.error.code, 'WORKER_NOT_FOUND');
  assert.equal(
    (await caller.start('w1', 'demo:good')).body.error.code,
    'ILLEGAL_STATE',
    'a late order starts nothing',
  );
});

test('the same order again, also at once, is the same worker; another one with its id is refused', async (t) => {
  const caller = await pool(t, poolFolder(t));
  const both = await Promise.all(Array.from({ length: 10 }, () => caller.start('w1', 'demo:good')));
  for (const { status, body } of both) assert.deepEqual([status, body.worker_id], [200, 'w1']);
  await caller.becomes('w1', 'ready');
  assert.deepEqual((await caller.start('w1', 'demo:good')).body, { worker_id: 'w1', status: 'ready' });
  assert.equal(livingOf(await caller.state(), 'w1').length, 1);
  for (const other of [
    () => caller.start('w1', 'demo:other'),
    () => caller.start('w1', 'demo:good', { vram_bytes: 5 }),
  ]) {
    const { status, body } = await other();
    assert.deepEqual([status, body.error.code], [409, 'ILLEGAL_STATE']);
  }
  const unnamed = await Promise.all([
    caller.start(undefined, 'demo:good'),
    caller.start(undefined, 'demo:good'),
  ]);
  assert.notEqual(unnamed[0]!.body.worker_id, unnamed[1]!.body.worker_id);
  assert.equal((await caller.state()).workers.length, 3);
});

test('[ORCH-1120] an order that cannot be carried out says why with its code, and changes nothing', async (t) => {
  const data = poolFolder(t);
  const caller = await pool(t, data);
  const before = await caller.state();
  const refused = async (code: string, model: string, more: object = {}): Promise<void> => {
    const { body } = await caller.start('w1', model, more);
    assert.equal(body.error?.code, code, `${model} ${JSON.stringify(body)}`);
  };
  await refused('GPU_UNAVAILABLE', 'demo:good', { gpu_id: 7 });
  await refused('INSUFFICIENT_VRAM', 'demo:good', { vram_bytes: 1001 * MIB });
  await refused('MODEL_NOT_FOUND', 'file:/nowhere/x.gguf');
  await refused('MODEL_NOT_FOUND', 'hf:org/never-fetched');
  await refused('MODEL_NOT_FOUND', 'an-alias');
  await refused('MODEL_NOT_FOUND', 'openai:gpt');
  for (const model of ['file:/../x', 'hf:../../x', 'demo:../x', '--help', 'demo:\u0000']) {
    await refused('INVALID_PARAMS', model);
  }
  await refused('INVALID_PARAMS', 'demo:good', { extra: 1 });
  await refused('INVALID_PARAMS', 'demo:good', { vram_bytes: -1 });
  assert.equal((await caller.start('../w', 'demo:good')).body.error.code, 'INVALID_PARAMS');
  assert.equal((await caller.drain('nobody')).body.error.code, 'WORKER_NOT_FOUND');
  assert.equal((await caller.ask('GET', '/v2/state?after=x')).body.error.code, 'INVALID_PARAMS');
  assert.deepEqual(await caller.state(), before);
});

test('two orders are not promised the same memory', async (t) => {
  const caller = await pool(t, poolFolder(t));
  const orders = await Promise.all(
    ['a', 'b', 'c'].map((id) => caller.start(id, 'demo:good', { vram_bytes: 400 * MIB })),
  );
  assert.deepEqual(orders.map(({ status }) => status).sort(), [200, 200, 409]);
  assert.equal((await caller.state()).gpus[0]?.available_vram, 200 * MIB);
});

test('[ORCH-1110] what was only guessed may turn out to be more, as far as the device has it', async (t) => {
  const caller = await pool(t, poolFolder(t));
  await caller.start('starting', 'demo:never-ready', { vram_bytes: undefined });
  assert.equal((await caller.worker('starting'))?.vram_used, 256 * MIB);
  await caller.stop('starting');
  await caller.goes('starting');
  await caller.start('guessed', 'demo:large', { vram_bytes: undefined });
  await caller.becomes('guessed', 'ready');
  assert.equal((await caller.state()).gpus[0]?.allocated_vram, 300 * MIB);
  await caller.start('ordered', 'demo:large', { vram_bytes: 299 * MIB });
  assert.match((await caller.becomes('ordered', 'failed')).error?.message ?? '', /were promised/);
  await caller.start('too-much', 'demo:greedy', { vram_bytes: undefined });
  assert.match((await caller.becomes('too-much', 'failed')).error?.message ?? '', /were promised/);
});

/** Within this time a worker has started and asked, also on a busy machine; its failure is told when it is over. */
const SLOW_START_MS = 10_000;

/** How a worker misbehaves → what is said of it. */
const FAILURES: Record<string, { code: string; says: RegExp; more?: object }> = {
  exits: {
    code: 'WORKER_START_FAILED',
    says: /ended with code 3 .*: cannot load the model, the token is \[redacted\]$/,
  },
  'never-ready': { code: 'WORKER_START_TIMEOUT', says: /not ready within 300 ms/, more: { timeout_ms: 300 } },
  'wrong-id': {
    code: 'WORKER_START_TIMEOUT',
    says: /not ready within 10000 ms: ready: 401/,
    more: { timeout_ms: SLOW_START_MS },
  },
  'wrong-secret': {
    code: 'WORKER_START_TIMEOUT',
    says: /within 10000 ms: ready: 401/,
    more: { timeout_ms: SLOW_START_MS },
  },
  'wrong-model': { code: 'WORKER_START_FAILED', says: /another model/ },
  foreign: { code: 'WORKER_START_FAILED', says: /a place that is not allowed/ },
  greedy: { code: 'WORKER_START_FAILED', says: /10485760 were promised/ },
  'never-ready+stubborn': { code: 'WORKER_START_TIMEOUT', says: /within 300 ms/, more: { timeout_ms: 300 } },
  'deaf+stubborn': { code: 'WORKER_UNAVAILABLE', says: /missed 3 health checks: .*no answer in time/ },
};

test('[ORCH-1120] a worker that misbehaves fails with the reason, is ended, and stays to be seen until it is stopped', async (t) => {
  const caller = await pool(t, poolFolder(t), { health_misses: 3 });
  await Promise.all(
    Object.entries(FAILURES).map(async ([how, { code, says, more }], at) => {
      const id = `w${at}`;
      assert.equal((await caller.start(id, `demo:${how}`, more)).status, 200);
      const { error, token } = await caller.becomes(id, 'failed');
      assert.equal(error?.code, code, how);
      assert.match(error?.message ?? '', says, how);
      assert.ok(!error?.message.includes(token!), 'no secret in a reason');
      await caller.until(({ gpus }) => !gpus[0]!.workers.includes(id));
      assert.deepEqual(livingOf(await caller.state(), id), [], how);
      assert.equal(
        (await caller.start(id, `demo:${how}`, more)).body.status,
        'failed',
        'it is not started again',
      );
      assert.equal((await caller.drain(id)).body.error.code, 'ILLEGAL_STATE');
      assert.equal((await caller.stop(id)).status, 200);
      await caller.goes(id);
    }),
  );
  assert.equal((await caller.state()).gpus[0]?.allocated_vram, 0);
});

test('a worker that ends, is killed or stops answering fails with how it went', async (t) => {
  // Those that answer are late by less than this, also on a busy machine.
  const caller = await pool(t, poolFolder(t), { health_misses: 3, health_timeout_ms: 3000 });
  for (const id of ['ends', 'killed', 'deaf']) await caller.start(id, 'demo:good');
  const [ends, , deaf] = await Promise.all(
    ['ends', 'killed', 'deaf'].map((id) => caller.becomes(id, 'ready')),
  );
  await fetch(`${ends!.uri}/exit`).catch(() => undefined);
  process.kill(livingOf(await caller.state(), 'killed')[0]!, 'SIGKILL');
  await fetch(`${deaf!.uri}/deaf`, { headers: { authorization: `Bearer ${deaf!.token}` } });
  const says = async (id: string, pattern: RegExp): Promise<void> => {
    const { error } = await caller.becomes(id, 'failed');
    assert.equal(error?.code, 'WORKER_UNAVAILABLE');
    assert.match(error?.message ?? '', pattern);
  };
  await says('ends', /ended with code 7/);
  await says('killed', /ended with signal SIGKILL/);
  await says('deaf', /missed 3 health checks/);
});

test('a stop ends one that does not want to, and a drain ends when its time is over', async (t) => {
  const caller = await pool(t, poolFolder(t));
  for (const id of ['stopped', 'drained']) await caller.start(id, 'demo:stubborn');
  for (const id of ['stopped', 'drained']) await caller.becomes(id, 'ready');
  assert.equal((await caller.stop('stopped')).body.status, 'draining');
  assert.equal((await caller.stop('stopped')).body.status, 'draining', 'the same again');
  assert.equal((await caller.drain('drained', { deadline_ms: 100 })).body.status, 'draining');
  await caller.goes('stopped');
  const { error } = await caller.becomes('drained', 'failed');
  assert.match(error?.message ?? '', /time to drain is over/);
  await caller.until(({ gpus }) => gpus[0]!.workers.length === 0);
});

test('a brain that was replaced commands nothing any more, also after a restart', async (t) => {
  const data = poolFolder(t);
  const make = () =>
    startPool({
      config: { ...CONFIG, data },
      logger: createLogger({ write: () => undefined, now: () => 0 }),
      endWorkers: true,
    });
  const first = await make();
  const caller = new PoolCaller(first.url);
  const fenced = async (from: PoolCaller): Promise<void> => {
    from.epoch = 4;
    const orders = [from.start('w2', 'demo:good'), from.stop('w1'), from.drain('w1')];
    for (const { status, body } of await Promise.all(orders)) {
      assert.deepEqual([status, body.error.code], [409, 'FENCED']);
    }
  };
  caller.epoch = 5;
  assert.equal((await caller.start('w1', 'demo:good')).status, 200);
  await fenced(caller);
  const missing = await caller.ask('POST', '/v2/workers/stop', { worker_id: 'w1' }, { 'x-orchd-epoch': '' });
  assert.equal(missing.body.error.code, 'INVALID_PARAMS');
  await first.stop();
  const second = await make();
  atEnd(t, () => second.stop());
  await fenced(new PoolCaller(second.url));
});

test('whoever has no token is told nothing; one that others can reach makes itself a token', async (t) => {
  const data = poolFolder(t);
  const caller = await pool(t, data, { token_file: join(data, 'secret') });
  const stranger = new PoolCaller(caller.url);
  for (const [method, path] of [
    ['GET', '/v2/state'],
    ['POST', '/v2/workers/start'],
    ['POST', '/v2/workers/stop'],
    ['POST', '/v2/workers/x/drain'],
    ['POST', '/v2/internal/workers/ready'],
    ['POST', '/v2/models/resolve'],
    ['POST', '/v2/models/verify'],
  ] as const) {
    const { status } = await stranger.ask(method, path, method === 'GET' ? undefined : {});
    assert.equal(status, 401, path);
  }
  assert.equal((await stranger.ask('GET', '/health')).status, 200);
  assert.equal((await caller.state()).workers.length, 0);
  assert.equal(statSync(join(data, 'secret')).mode & 0o77, 0, 'nobody else reads it');
  const open = await startPool({
    config: { ...CONFIG, data: join(data, 'open'), host: '0.0.0.0' },
    logger: createLogger({ write: () => undefined, now: () => 0 }),
  });
  atEnd(t, () => open.stop());
  assert.match(open.token ?? '', /^orchd_/);
  assert.equal((await new PoolCaller(open.url).ask('GET', '/v2/state')).status, 401);
  assert.equal((await new PoolCaller(open.url, open.token).ask('GET', '/v2/state')).status, 200);
});

test('one who waits for a change hears of it at once, and of none when the time is over', async (t) => {
  const caller = await pool(t, poolFolder(t));
  const { version, registry } = await caller.state();
  const same = await caller.state(`?after=${version}&wait_ms=50`);
  assert.deepEqual([same.version, same.registry], [version, registry]);
  const waiting = caller.state(`?after=${version}&wait_ms=30000`);
  await caller.start('w1', 'demo:good');
  assert.ok((await waiting).version > version);
});

test('a worker gets what it needs to run, its secret, its device, and nothing else of ours', async (t) => {
  const data = poolFolder(t);
  mkdirSync(join(data, 'models'));
  writeFileSync(join(data, 'models', 'x.gguf'), 'GGUF');
  process.env['SECRET_OF_THE_MANAGER'] = 'x';
  atEnd(t, () => delete process.env['SECRET_OF_THE_MANAGER']);
  const caller = await pool(t, data, { models: [join(data, 'models')] });
  const model = `file:${join(data, 'models', 'x.gguf')}`;
  assert.equal((await caller.start('w1', model)).status, 200);
  const { uri, token } = await caller.becomes('w1', 'ready');
  const { env, argv } = (await (await fetch(`${uri}/env`)).json()) as {
    env: Record<string, string>;
    argv: string[];
  };
  assert.equal(env['ORCHD_WORKER_TOKEN'], token);
  assert.equal(env['CUDA_VISIBLE_DEVICES'], '');
  assert.equal(env['SECRET_OF_THE_MANAGER'], undefined);
  assert.deepEqual(argv, [
    ...['--id', 'w1', '--model', join(data, 'models', 'x.gguf'), '--model-ref', model],
    ...['--host', '127.0.0.1', '--gpu', 'off', '--pool-manager', caller.url],
  ]);
  assert.ok(!readFileSync(join(data, 'logs', 'w1.log'), 'utf8').includes(token!));
});

/** A program of that name which is found before any other; what it does can be changed later. */
function fakeNvidia(t: TestContext, folder: string): (script: string) => void {
  const path = join(folder, 'nvidia-smi');
  const before = process.env['PATH'];
  process.env['PATH'] = `${folder}:${before}`;
  atEnd(t, () => {
    process.env['PATH'] = before;
  });
  return (script) => {
    writeFileSync(path, `#!/bin/sh\n${script}\n`);
    chmodSync(path, 0o755);
  };
}

test('[ORCH-1120] devices are what nvidia-smi says, and one that breaks takes nothing new', async (t) => {
  const folder = poolFolder(t);
  const says = fakeNvidia(t, folder);
  says("echo '0, NVIDIA A, 1000, 200, 800'; echo '1, NVIDIA B, [N/A], ERR!, [N/A]'");
  const caller = await pool(t, join(folder, 'data'), { cpu_memory: 100 * MIB, device_poll_ms: 30 });
  const { gpus } = await caller.state();
  const facts = ({ id, kind, status, available_vram }: DeviceState) => [
    id,
    kind,
    status,
    available_vram / MIB,
  ];
  assert.deepEqual(gpus.map(facts), [
    [0, 'nvidia', 'ok', 800],
    [1, 'nvidia', 'error', 0],
    [2, 'cpu', 'ok', 100],
  ]);
  assert.equal((await caller.start('w1', 'demo:good', { gpu_id: 1 })).body.error.code, 'GPU_UNAVAILABLE');
  assert.equal((await caller.start('w0', 'demo:good', { gpu_id: 0 })).status, 200);
  const { uri } = await caller.becomes('w0', 'ready');
  const { env } = (await (await fetch(`${uri}/env`)).json()) as { env: Record<string, string> };
  assert.equal(env['CUDA_VISIBLE_DEVICES'], '0');
  for (const [script, why] of [
    ['exit 9', /ended with code 9/],
    ["echo '1, NVIDIA B, 10, 1, 9'", /does not name it any more/],
    ['kill -9 $$', /failed/],
  ] as const) {
    says(script);
    const broken = await caller.until(
      ({ gpus: now }) => now[0]?.status === 'error' && why.test(now[0].reason!) && now[0],
    );
    assert.deepEqual(broken.workers, ['w0'], 'its workers are still on it');
    says("echo '0, NVIDIA A, 1000, 200, 800'");
    await caller.until(({ gpus: now }) => now[0]?.status === 'ok');
  }
});

test('[ORCH-1001] a pool manager decides nothing: a worker starts on the device of its order or not at all, and none makes room', async (t) => {
  const folder = poolFolder(t);
  const says = fakeNvidia(t, folder);
  says("echo '0, NVIDIA A, 1000, 900, 100'; echo '1, NVIDIA B, 1000, 0, 1000'");
  const caller = await pool(t, join(folder, 'data'));
  const order = (id: string, mib: number) =>
    caller.start(id, 'demo:good', { gpu_id: 0, vram_bytes: mib * MIB });
  assert.equal((await order('w1', 200)).body.error.code, 'INSUFFICIENT_VRAM', 'device 1 has room');
  assert.equal((await order('w2', 50)).status, 200);
  await caller.becomes('w2', 'ready');
  assert.equal((await order('w3', 80)).body.error.code, 'INSUFFICIENT_VRAM', 'w2 is idle');
  const { gpus } = await caller.state();
  assert.deepEqual([gpus[0]?.workers, gpus[1]?.workers], [['w2'], []]);
});

test('a pool makes itself known to the brains again and again, whatever they answer', async (t) => {
  const heard: { path: string; authorization: string | undefined; body: unknown }[] = [];
  const brain = createServer((request, response) => {
    let text = '';
    request.on('data', (piece: Buffer) => {
      text += piece;
    });
    request.on('end', () => {
      heard.push({
        path: request.url!,
        authorization: request.headers.authorization,
        body: JSON.parse(text),
      });
      response.writeHead(heard.length === 1 ? 500 : 200).end();
    });
  });
  await new Promise<void>((resolve) => brain.listen(0, '127.0.0.1', resolve));
  atEnd(t, () => brain.close());
  const { port } = brain.address() as AddressInfo;
  const data = poolFolder(t);
  const caller = await pool(
    t,
    data,
    {
      brain: [`http://127.0.0.1:${port}`, 'http://127.0.0.1:1'],
      pool_id: 'box',
      register_ms: 10,
      token_file: join(data, 'secret'),
    },
    { brainToken: 'shown' },
  );
  await caller.until(() => heard.length >= 3);
  const token = readFileSync(join(data, 'secret'), 'utf8').trim();
  for (const { path, authorization, body } of heard) {
    assert.deepEqual([path, authorization], ['/v2/pools/register', 'Bearer shown']);
    assert.deepEqual(body, { pool_id: 'box', uri: caller.url, token });
  }
});

test('a pool makes itself known at once when a brain that waited for its state has left', async (t) => {
  let registered = (): void => undefined;
  const brain = createServer((request, response) => {
    request.resume().on('end', () => response.writeHead(200).end());
    registered();
  });
  await new Promise<void>((resolve) => brain.listen(0, '127.0.0.1', resolve));
  atEnd(t, () => brain.close());
  const next = (): Promise<void> => new Promise((resolve) => (registered = resolve));
  const first = next();
  const { port } = brain.address() as AddressInfo;
  const hour = 3_600_000;
  const caller = await pool(t, poolFolder(t), { brain: `http://127.0.0.1:${port}`, register_ms: hour });
  await first;
  let isKnownAgain = false;
  void next().then(() => {
    isKnownAgain = true;
  });
  const { version } = await caller.state();
  // It may leave before its request has arrived, and then leaves another time.
  while (!isKnownAgain) {
    const waits = connect(Number(new URL(caller.url).port), '127.0.0.1');
    waits.write(`GET /v2/state?after=${version}&wait_ms=30000 HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n`);
    await caller.state();
    waits.destroy();
    await caller.state();
  }
});
