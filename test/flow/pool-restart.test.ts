/** A pool manager that is killed, and the one that comes after it: what runs goes on, and nothing runs twice. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { MARK_VARIABLE, type ManagedWorkerRecord } from '../../src/daemons/pool-manager/layout.ts';
import { processesWith, signal } from '../../src/kit/process/identity.ts';
import type { PoolState } from '../../src/model/pool-wire.ts';
import { atEnd, CONFIG, livingOf, PoolCaller, poolFolder } from '../fakes/pool-kit.ts';
import { orchd, start, until } from './cli-process.ts';

interface PoolProcess {
  readonly caller: PoolCaller;
  kill(): Promise<void>;
  /** In order, as with Ctrl-C. */
  stop(): Promise<string>;
}

/** The real command, in a process of its own. */
async function poolProcess(t: TestContext, data: string, more: object = {}): Promise<PoolProcess> {
  const file = join(data, 'pool.yaml');
  // JSON is YAML.
  writeFileSync(file, JSON.stringify({ ...CONFIG, ...more }));
  const running = start(['pool', '--config', file, '--data', join(data, 'pool'), '--id', 'box']);
  const kill = async (): Promise<void> => {
    running.child.kill('SIGKILL');
    await running.ended;
  };
  // After the manager: whatever a test that fails has left behind.
  atEnd(t, () => endProcesses(data));
  atEnd(t, kill);
  const banner = await running.saw('err', /press Ctrl-C to stop/);
  const caller = new PoolCaller(/listens on (\S+)/.exec(banner)![1]!);
  return {
    caller,
    kill,
    async stop() {
      running.child.kill('SIGTERM');
      const { code, err } = await running.ended;
      assert.equal(code, 0);
      return err;
    },
  };
}

function endProcesses(data: string): void {
  const { id } = JSON.parse(readFileSync(join(data, 'pool', 'registry.json'), 'utf8')) as { id: string };
  for (const name of readdirSync(join(data, 'pool', 'logs'))) {
    for (const pid of processesWith(MARK_VARIABLE, `${id}/${name.replace(/\.log$/, '')}`))
      signal(pid, 'SIGKILL');
  }
}

const recordFile = (data: string, id: string): string => join(data, 'pool', 'workers', `${id}.json`);
const recordOf = (data: string, id: string): ManagedWorkerRecord =>
  JSON.parse(readFileSync(recordFile(data, id), 'utf8'));
const without = (data: string, id: string, ...keys: (keyof ManagedWorkerRecord)[]): void => {
  const kept = Object.entries(recordOf(data, id)).filter(
    ([key]) => !keys.includes(key as keyof ManagedWorkerRecord),
  );
  writeFileSync(recordFile(data, id), JSON.stringify(Object.fromEntries(kept)));
};

async function endAll(caller: PoolCaller): Promise<void> {
  const { workers } = await caller.state();
  for (const { id } of workers) await caller.stop(id);
  for (const { id } of workers) await caller.goes(id);
}

const viewOf = ({ workers }: PoolState, id: string) => workers.find((worker) => worker.id === id);

test('after a kill -9 its workers are taken over as they were, and none is there twice', async (t) => {
  const data = poolFolder(t);
  const first = await poolProcess(t, data);
  for (const id of ['ready', 'dies', 'slow', 'drains', 'fails']) {
    await first.caller.start(
      id,
      id === 'slow' ? 'demo:never-ready' : id === 'fails' ? 'demo:foreign' : 'demo:good',
    );
  }
  for (const id of ['ready', 'dies', 'drains']) await first.caller.becomes(id, 'ready');
  await first.caller.becomes('fails', 'failed');
  // A failure is shown before it is written: the kill must not come between the two.
  await until(() => recordOf(data, 'fails').error !== undefined);
  await first.caller.drain('drains');
  const before = await first.caller.state();
  await first.kill();
  const pids = Object.fromEntries(before.workers.map(({ id }) => [id, livingOf(before, id)]));
  assert.deepEqual([pids['ready']!.length, pids['slow']!.length], [1, 1], 'they outlive the manager');
  const [, , group, session] = readFileSync(`/proc/${pids['ready']![0]}/stat`, 'latin1')
    .split(') ')[1]!
    .split(' ');
  assert.deepEqual(
    [group, session],
    [String(pids['ready']![0]), String(pids['ready']![0])],
    'no Ctrl-C reaches them',
  );
  process.kill(pids['dies']![0]!, 'SIGKILL');

  const second = await poolProcess(t, data);
  const after = await second.caller.state();
  assert.equal(after.registry, before.registry);
  assert.ok(after.version > before.version);
  assert.deepEqual(
    viewOf(after, 'ready'),
    viewOf(before, 'ready'),
    'with its address, its memory and its secret',
  );
  assert.deepEqual(viewOf(after, 'slow'), viewOf(before, 'slow'));
  assert.deepEqual(viewOf(after, 'fails'), viewOf(before, 'fails'));
  assert.equal(viewOf(after, 'drains')?.status, 'draining');
  assert.equal(viewOf(after, 'dies')?.error?.code, 'WORKER_UNAVAILABLE');
  for (const id of ['ready', 'slow', 'drains']) assert.deepEqual(livingOf(after, id), pids[id], id);
  assert.deepEqual(after.gpus[0]?.workers, ['drains', 'ready', 'slow']);
  assert.deepEqual((await second.caller.start('ready', 'demo:good')).body, {
    worker_id: 'ready',
    status: 'ready',
  });
  // A worker that is no child of this manager is watched as well.
  process.kill(pids['ready']![0]!, 'SIGKILL');
  assert.equal((await second.caller.becomes('ready', 'failed')).error?.code, 'WORKER_UNAVAILABLE');
  await endAll(second.caller);
  for (const { id } of before.workers) assert.deepEqual(livingOf(before, id), [], id);
  assert.deepEqual(readdirSync(join(data, 'pool', 'workers')), []);
});

test('killed between the intent, the start and the record of the pid it neither doubles nor loses a worker', async (t) => {
  const data = poolFolder(t);
  const first = await poolProcess(t, data);
  for (const id of ['unstarted', 'unwritten', 'calling']) await first.caller.start(id, 'demo:good');
  for (const id of ['unstarted', 'unwritten', 'calling']) await first.caller.becomes(id, 'ready');
  const before = await first.caller.state();
  await first.kill();
  // As the disk is before the process is started, and before its pid is written.
  process.kill(livingOf(before, 'unstarted')[0]!, 'SIGKILL');
  for (const id of ['unstarted', 'unwritten', 'calling']) without(data, id, 'process', 'ready', 'readyAt');
  const [unwritten] = livingOf(before, 'unwritten');
  const [calling] = livingOf(before, 'calling');
  assert.ok(unwritten !== undefined && calling !== undefined);

  const second = await poolProcess(t, data);
  const after = await second.caller.state();
  assert.equal(viewOf(after, 'unstarted')?.error?.code, 'WORKER_START_FAILED', 'it is not started by itself');
  assert.equal(viewOf(after, 'unwritten')?.status, 'starting');
  assert.equal(recordOf(data, 'unwritten').process?.pid, unwritten);
  // The worker reports ready late, as if it had been slower than the restart of the manager.
  const { uri, token } = viewOf(before, 'calling')!;
  const ready = {
    ...{ worker_id: 'calling', model_ref: 'demo:good', uri, vram_bytes: 1000, slots: 2, context_length: 512 },
    registry: 'r1',
  };
  const path = '/v2/internal/workers/ready';
  const headers = { authorization: `Bearer ${token}` };
  const heard = await second.caller.ask('POST', path, ready, headers);
  assert.equal(heard.status, 200, JSON.stringify(heard.body));
  assert.equal((await second.caller.ask('POST', path, ready, headers)).status, 200, 'the same again');
  const other = { ...ready, uri: 'http://127.0.0.1:1' };
  assert.equal((await second.caller.ask('POST', path, other, headers)).body.error.code, 'ILLEGAL_STATE');
  assert.equal((await second.caller.worker('calling'))?.status, 'ready');
  assert.deepEqual([livingOf(after, 'unwritten'), livingOf(after, 'calling')], [[unwritten], [calling]]);
  await endAll(second.caller);
});

/** How far the start of a worker has come; each may be the last thing a manager does. */
const MOMENTS: Record<string, (data: string, registry: string, id: string) => boolean> = {
  'its intent is on disk': (data, _, id) => existsSync(recordFile(data, id)),
  'its process is there': (_, registry, id) => processesWith(MARK_VARIABLE, `${registry}/${id}`).length > 0,
  'its pid is on disk': (data, _, id) =>
    existsSync(recordFile(data, id)) && recordOf(data, id).process !== undefined,
  'it has called': (data, _, id) =>
    existsSync(recordFile(data, id)) && recordOf(data, id).ready !== undefined,
};

test('killed at any moment of a start, and ordered again, it is one worker with one process at most', async (t) => {
  const data = poolFolder(t);
  let manager = await poolProcess(t, data);
  const { registry } = await manager.caller.state();
  for (const [at, [moment, isReached]] of Object.entries(MOMENTS).entries()) {
    const id = `w${at}`;
    const order = manager.caller.start(id, 'demo:good').catch(() => undefined);
    await until(() => isReached(data, registry, id));
    await manager.kill();
    await order;
    manager = await poolProcess(t, data);
    const again = await manager.caller.start(id, 'demo:good');
    assert.equal(again.status, 200, moment);
    const settled = await manager.caller.until(({ workers }) =>
      workers.find((worker) => worker.id === id && worker.status !== 'starting'),
    );
    assert.match(settled.status, /^(ready|failed)$/, moment);
    const living = processesWith(MARK_VARIABLE, `${registry}/${id}`).length;
    assert.equal(living, settled.status === 'ready' ? 1 : 0, moment);
  }
  await endAll(manager.caller);
});

test('what it was about to end it ends after a restart; a record that cannot be read leaves no process', async (t) => {
  const data = poolFolder(t);
  const first = await poolProcess(t, data, { stop_grace_ms: 60_000 });
  for (const id of ['stopped', 'failed', 'garbled']) await first.caller.start(id, 'demo:stubborn');
  for (const id of ['stopped', 'failed', 'garbled']) await first.caller.becomes(id, 'ready');
  const before = await first.caller.state();
  await first.caller.stop('stopped');
  await first.kill();
  const error = { code: 'WORKER_UNAVAILABLE', message: 'x' };
  writeFileSync(recordFile(data, 'failed'), JSON.stringify({ ...recordOf(data, 'failed'), error }));
  writeFileSync(recordFile(data, 'garbled'), '{"id": "garb');

  const second = await poolProcess(t, data);
  await second.caller.goes('stopped');
  await second.caller.until(({ gpus }) => gpus[0]!.workers.length === 0);
  assert.deepEqual(
    (await second.caller.state()).workers.map(({ id }) => id),
    ['failed'],
  );
  for (const id of ['stopped', 'failed', 'garbled']) {
    await second.caller.until(() => livingOf(before, id).length === 0);
  }
  await endAll(second.caller);
});

test('a pid that belongs to somebody else by now is not taken for the worker', async (t) => {
  const data = poolFolder(t);
  const first = await poolProcess(t, data);
  await first.caller.start('w1', 'demo:good');
  await first.caller.becomes('w1', 'ready');
  const before = await first.caller.state();
  await first.kill();
  process.kill(livingOf(before, 'w1')[0]!, 'SIGKILL');
  const record = recordOf(data, 'w1');
  // The test itself, as a later process with the number of the worker.
  writeFileSync(
    recordFile(data, 'w1'),
    JSON.stringify({ ...record, process: { ...record.process, pid: process.pid } }),
  );
  const second = await poolProcess(t, data);
  assert.equal((await second.caller.worker('w1'))?.status, 'failed');
  await second.caller.stop('w1');
  await second.caller.goes('w1');
});

test('two managers never share a folder; one that stops in order leaves its workers to the next', async (t) => {
  const data = poolFolder(t);
  const first = await poolProcess(t, data, { models: [data, join(data, 'none')] });
  await first.caller.start('w1', 'demo:good');
  await first.caller.becomes('w1', 'ready');
  const refused = await orchd(['pool', '--port', '0', '--data', join(data, 'pool')]);
  assert.equal(refused.code, 2);
  assert.match(refused.err, /another pool manager has this folder \(STORE_LOCKED\)/);
  const told = await first.stop();
  assert.match(told, /1 workers keep running/);
  assert.deepEqual(told.match(/the model folder .*(?=:)/g), [
    `the model folder ${join(data, 'none')} does not exist`,
  ]);
  const second = await poolProcess(t, data);
  assert.equal((await second.caller.worker('w1'))?.status, 'ready');
  assert.equal(second.caller.url, first.caller.url, 'where workers that are starting call');
  await endAll(second.caller);
});
