/** A server whose disk is full under it, as its callers see it. */
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { after, type TestContext, test } from 'node:test';
import type { FunctionContext } from '../../src/backends/local/functions.ts';
import { OrchdClient, type TaskEvent } from '../../src/client/client.ts';
import { httpBrain } from '../fakes/http-brain.ts';
import { fill, mountsMissing, mountTmpfs, unmountAll } from '../fakes/mounts.ts';
import { orchd, until } from './cli-process.ts';
import { type ServerProcess, serve, Talker } from './server-process.ts';

after(unmountAll);

const ON_MOUNT = { timeout: 120_000, skip: mountsMissing() ?? false };

/** Follows a job in the background; what it has heard so far can be looked at. */
function following(client: OrchdClient, id: string): { heard: TaskEvent[]; ended: Promise<void> } {
  const heard: TaskEvent[] = [];
  const follow = async (): Promise<void> => {
    for await (const event of client.events(id)) heard.push(event);
  };
  return { heard, ended: follow() };
}

const textOf = (heard: readonly TaskEvent[]): string =>
  heard
    .filter(({ event }) => event === 'token')
    .map(({ data }) => (data as { t: string }).t)
    .join('');

/** Submits what nothing runs until one is refused; returns the jobs that were taken. */
async function submitUntilFull(client: OrchdClient): Promise<string[]> {
  const taken: string[] = [];
  for (;;) {
    const requests = Array.from({ length: 50 }, () => ({
      type: 'waits',
      wait_for_backend: true,
      payload: 'x'.repeat(4000),
    }));
    for (const answer of await client.submitMany(requests)) {
      if (!('error' in answer)) taken.push(answer.job_id);
      else {
        assert.deepEqual([answer.http_status, answer.error.code], [507, 'STORE_FULL']);
        return taken;
      }
    }
    assert.ok(taken.length < 9000, 'the disk never got full');
  }
}

interface Stage {
  readonly brain: ServerProcess;
  readonly client: OrchdClient;
  readonly talker: Talker;
  readonly data: string;
  readonly ballast: string;
}

/** A server on a small disk with one job that runs, one that waits for its turn, and one that has ended. */
async function onSmallDisk(t: TestContext): Promise<Stage> {
  const mount = mountTmpfs(48);
  t.after(() => mount.unmount());
  const data = join(mount.folder, 'data');
  const talker = new Talker();
  await talker.listen(t);
  const types = { talk: { argv: talker.argv }, echo: { argv: ['cat'] }, sleep: { argv: ['sleep', '600'] } };
  const commands = [{ name: 'work', slots: 3, types }];
  const brain = await serve(t, { data, config: { backends: { demo: false, commands } } });
  const client = new OrchdClient({ url: brain.url });
  await client.submit({ job_id: 'ended', type: 'echo', payload: 'kept' });
  await following(client, 'ended').ended;
  await client.submit({ job_id: 'talks', type: 'talk' });
  await talker.say('before\n');
  await client.submit({ job_id: 'sleeps', type: 'sleep' });
  await until(async () => (await client.get('sleeps')).state === 'running');
  await client.submit({ job_id: 'waits', type: 'waits', wait_for_backend: true });
  return { brain, client, talker, data, ballast: join(mount.folder, 'ballast') };
}

const statusOf = async (url: string): Promise<[number, Record<string, unknown>]> => {
  const response = await fetch(url);
  return [response.status, (await response.json()) as Record<string, unknown>];
};

const refusesWork = ({ client }: Stage): Promise<void> =>
  assert.rejects(client.submit({ type: 'echo' }), { status: 507, code: 'STORE_FULL', retriable: true });

async function answersReads({ brain, client }: Stage): Promise<void> {
  const { state, result } = await client.get('ended');
  assert.deepEqual([state, result], ['succeeded', { text: '"kept"', exit_code: 0 }]);
  // How many more were taken before the disk counted as full differs from run to run, and may be none.
  assert.ok((await client.list({ limit: 10 })).jobs.length >= 4);
  const [health, told] = await statusOf(`${brain.url}/health`);
  assert.deepEqual([health, told['status'], told['disk_full']], [200, 'degraded', true]);
  assert.deepEqual(await statusOf(`${brain.url}/ready`), [503, { ready: false }]);
}

/** For its followers and for whoever asks; a job that runs is also stopped. */
async function cancels({ client }: Stage, id: string): Promise<void> {
  const { heard, ended } = following(client, id);
  await client.cancel(id);
  await ended;
  assert.equal((heard.at(-1)!.data as { code: string }).code, 'CANCELLED');
  await until(async () => {
    const { state, attempts } = await client.get(id);
    return state === 'cancelled' && attempts.every((attempt) => attempt.state === 'ended');
  });
}

/** Checks that a job that is submitted once there is space runs to its end. */
async function takesWorkAgain({ brain, client }: Stage): Promise<void> {
  const isTaken = (): Promise<boolean> =>
    client.submit({ job_id: 'fresh', type: 'echo', payload: 1 }).then(
      () => true,
      () => false,
    );
  await until(isTaken);
  await following(client, 'fresh').ended;
  assert.equal((await client.get('fresh')).state, 'succeeded');
  assert.deepEqual(await statusOf(`${brain.url}/ready`), [200, { ready: true }]);
}

test(
  'work that runs goes on saying things to its followers on a full disk, and ends',
  ON_MOUNT,
  async (t) => {
    const mount = mountTmpfs(48);
    t.after(() => mount.unmount());
    let say = (_: string): void => undefined;
    const over = Promise.withResolvers<string>();
    const talk = (_: never, { emit }: FunctionContext): Promise<string> => {
      say = emit;
      return over.promise;
    };
    const data = join(mount.folder, 'data');
    const brain = await httpBrain({ data, backends: [{ name: 'b', types: { talk } }] });
    t.after(() => brain.stop());
    const client = new OrchdClient({ url: brain.url });
    await client.submit({ job_id: 'talks', type: 'talk' });
    const { heard, ended } = following(client, 'talks');
    await until(() => heard.some(({ event }) => event === 'started'));
    fill(join(mount.folder, 'ballast'));
    await submitUntilFull(client);
    for (const word of ['still ', 'speaking ']) {
      say(word);
      await until(() => textOf(heard).endsWith(word));
    }
    over.resolve('done');
    await ended;
    assert.deepEqual(heard.at(-1)?.data, { job_id: 'talks', state: 'succeeded', result: 'done' });
    await assert.rejects(client.submit({ type: 'talk' }), { status: 507 });
  },
);

test(
  'a large body that finds no space makes the server not ready, and space for it makes it ready again',
  ON_MOUNT,
  async (t) => {
    const mount = mountTmpfs(48);
    t.after(() => mount.unmount());
    const data = join(mount.folder, 'data');
    const brain = await httpBrain({ data, backends: [{ name: 'b', types: { echo: (x: unknown) => x } }] });
    t.after(() => brain.stop());
    const client = new OrchdClient({ url: brain.url });
    await client.submit({ job_id: 'first', type: 'echo' });
    await until(async () => (await client.get('first')).state === 'succeeded');
    const ballast = join(mount.folder, 'ballast');
    fill(ballast);
    const large = { type: 'echo', payload: 'x'.repeat(200_000) };
    await assert.rejects(client.submit(large), { status: 507, code: 'STORE_FULL' });
    assert.deepEqual(await statusOf(`${brain.url}/ready`), [503, { ready: false }]);
    const [, health] = await statusOf(`${brain.url}/health`);
    assert.deepEqual([health['status'], health['disk_full']], ['degraded', true]);
    await assert.rejects(client.submit({ type: 'echo' }), { status: 507, code: 'STORE_FULL' });
    rmSync(ballast);
    await until(async () => (await statusOf(`${brain.url}/ready`))[0] === 200);
    const { job_id } = await client.submit(large);
    await until(async () => (await client.get(job_id)).state === 'succeeded');
  },
);

test(
  'a sum of costs that would lack what a full disk cannot keep is refused, and is whole once there is space',
  ON_MOUNT,
  async (t) => {
    const mount = mountTmpfs(48);
    t.after(() => mount.unmount());
    const over = Promise.withResolvers<string>();
    const types = { quick: () => 'done', slow: () => over.promise };
    const config = 'prices: [{model: "*", request: 5}]';
    const data = join(mount.folder, 'data');
    const brain = await httpBrain({ data, config, backends: [{ name: 'b', slots: 2, types }] });
    t.after(() => brain.stop());
    const client = new OrchdClient({ url: brain.url });
    const costIn = async (): Promise<number> => (await client.usage({})).total.cost;
    await client.submit({ job_id: 'early', type: 'quick' });
    await following(client, 'early').ended;
    assert.equal(await costIn(), 5);
    await client.submit({ job_id: 'late', type: 'slow' });
    await until(async () => (await client.get('late')).state === 'running');
    const ballast = join(mount.folder, 'ballast');
    fill(ballast);
    over.resolve('done');
    await following(client, 'late').ended;
    // Not by the client, which would try again for a while.
    for (const path of ['/v2/usage', '/v2/usage', '/v2/usage/ledger']) {
      const [status, { error }] = await statusOf(brain.url + path);
      assert.deepEqual([status, (error as { code: string }).code], [507, 'STORE_FULL'], path);
    }
    rmSync(ballast);
    assert.equal(await costIn(), 10);
    const lines: string[] = [];
    for await (const { job_id } of client.ledger()) lines.push(job_id);
    assert.deepEqual(lines, ['early', 'late']);
  },
);

test(
  'a full disk answers 507 to new work while reads, streams and cancels go on; with space so does work',
  ON_MOUNT,
  async (t) => {
    const stage = await onSmallDisk(t);
    const { brain, client, talker, data, ballast } = stage;
    const early = following(client, 'talks');
    await until(() => textOf(early.heard) === 'before\n');
    fill(ballast);
    const others = await submitUntilFull(client);
    t.diagnostic(`${others.length} jobs were taken before the disk counted as full`);

    await refusesWork(stage);
    await answersReads(stage);
    const late = following(client, 'talks');
    await until(() => textOf(late.heard) === 'before\n');
    await cancels(stage, 'waits');
    await cancels(stage, 'sleeps');
    await refusesWork(stage);

    rmSync(ballast);
    await takesWorkAgain(stage);
    await talker.say('after\n');
    await talker.end();
    for (const { heard, ended } of [early, late]) {
      await ended;
      assert.equal(textOf(heard), 'before\nafter\n');
      assert.equal(heard.at(-1)?.event, 'end');
    }
    for (const id of others) assert.equal((await client.get(id)).state, 'queued');
    brain.child.kill('SIGTERM');
    assert.equal((await brain.ended).code, 0);
    assert.equal((await orchd(['doctor', data])).code, 0);
  },
);
