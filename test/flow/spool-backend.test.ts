/** A brain over a spool: agents in this process, on a real disk. */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { type TestContext, test } from 'node:test';
import { createOrchestrator } from '../../src/app/library.ts';
import { offerOf } from '../../src/backends/conformance/offers.ts';
import { SpoolExecutions } from '../../src/backends/spool/executions.ts';
import { SpoolBackend } from '../../src/backends/spool/spool-backend.ts';
import { SpoolSource } from '../../src/backends/spool/spool-source.ts';
import { namedToken } from '../../src/backends/spool/token-state.ts';
import type { Backend } from '../../src/core/ports/backend.ts';
import { SpoolAgent } from '../../src/daemons/spool/agent.ts';
import { functionHandler, type JobHandler } from '../../src/daemons/spool/handler.ts';
import { SpoolManager } from '../../src/daemons/spool/manager.ts';
import type { DiskFile, OpenMode } from '../../src/kit/env/env.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import type { Service } from '../../src/kit/service.ts';
import type { Commander } from '../../src/model/worker-wire.ts';
import { Actor } from '../../src/spool/actor.ts';
import { checkSpool } from '../../src/spool/invariants.ts';
import { requeueByOrder } from '../../src/spool/retry.ts';
import { makeSpool, type Spool } from '../../src/spool/spool.ts';
import { until } from '../fakes/command-kit.ts';
import { makeSpoolKit, type SpoolKit } from '../fakes/spool-kit.ts';

const env = realEnv();
const WHO: Commander = { owner: 'brain', epoch: 1 };
const NO_BACKOFF = { baseDelayMs: 1, maxDelayMs: 1, jitter: 0 };

class Site {
  readonly kit: SpoolKit;
  readonly #t: TestContext;
  #backend: Backend | undefined;

  constructor(t: TestContext, kit: SpoolKit) {
    this.#t = t;
    this.kit = kit;
  }

  static async make(t: TestContext): Promise<Site> {
    return new Site(t, await makeSpoolKit(t));
  }

  /** The backend as it was declared last. */
  get backend(): Backend {
    return this.#backend as Backend;
  }

  source(): SpoolSource {
    const { folder, spool } = this.kit;
    const source = new SpoolSource({ env, logger: spool.logger, name: 'spool', folder });
    this.#t.after(() => source.stop());
    return source;
  }

  listen(): void {
    const present = (backend: Backend): void => {
      this.#backend = backend;
    };
    this.source().start({ present, gone: () => undefined, free: () => undefined });
  }

  async agent(handler: JobHandler, slots = 2): Promise<SpoolAgent> {
    return this.start(new SpoolAgent({ env, spool: this.kit.spool, handler, slots, stopGraceMs: 0 }));
  }

  async start<T extends Service>(service: T): Promise<T> {
    this.#t.after(() => service.stop());
    await service.start();
    return service;
  }

  isUsable(slots: number): Promise<unknown> {
    return until(() => this.#backend?.info.outage === undefined && this.#backend?.info.slots === slots);
  }

  /** The backend itself, without a look at the agents. */
  async executions(
    spool: Spool = this.kit.spool,
  ): Promise<{ backend: Backend; executions: SpoolExecutions }> {
    const executions = await SpoolExecutions.open({ env, spool, keepAckedMs: 0 });
    this.#t.after(() => executions.close());
    const info = { name: 'spool', kind: 'spool', slots: 9, types: undefined, models: undefined, labels: {} };
    const backend = new SpoolBackend({ ...info, paid: false, keepsResults: true, registry: '' }, () =>
      Promise.resolve(executions),
    );
    return { backend, executions };
  }
}

const offered = (token: string, who = WHO, payload: unknown = {}) =>
  offerOf(who, token, { type: 'work', payloadText: JSON.stringify(payload), registry: undefined });
const nameOf = (token: string, who = WHO): string => namedToken(who.owner, token).name;
const echo = functionHandler((prompt) => ({ answer: prompt }));
/** Runs until it is stopped. */
const endless: JobHandler = async ({ signal }) => {
  await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
  return { ok: false, reason: 'stopped' };
};
const followEnd = (backend: Backend, token: string) => backend.follow(token, 0, () => undefined, WHO);

test('the slots of the backend are those of the agents that are at work; without one it takes no jobs', async (t) => {
  const site = await Site.make(t);
  site.listen();
  await until(() => site.backend.info.outage === 'no agent is at work in the spool');
  const [two, three] = [await site.agent(echo, 2), await site.agent(echo, 3)];
  await site.isUsable(5);
  await two.stop();
  await site.isUsable(3);
  await three.stop();
  await until(() => site.backend.info.outage === 'no agent is at work in the spool');
});

test('a spool that is missing is told at once, gives no answers, and is used as soon as it is there', async (t) => {
  const site = await Site.make(t);
  fs.rmSync(site.kit.folder, { recursive: true });
  site.listen();
  assert.equal(typeof site.backend.info.outage, 'string', 'it is declared before it was looked at');
  await assert.rejects(site.backend.inspect(['a:1'], WHO), { code: 'SPOOL_INVALID' });
  await assert.rejects(site.backend.kill('a:1', WHO), { code: 'SPOOL_INVALID' });
  await makeSpool(site.kit.spool);
  await site.agent(echo);
  await site.isUsable(2);
  assert.deepEqual(await site.backend.offer(offered('a:1')), { is: 'accepted' });
  assert.equal((await followEnd(site.backend, 'a:1')).is, 'ended');
});

test('a job of a brain that was begun by an agent that is stopped is run by nobody else: the brain decides', async (t) => {
  const site = await Site.make(t);
  const { backend } = await site.executions();
  let begun = 0;
  const agent = await site.agent((job) => {
    begun++;
    return endless(job);
  });
  await backend.offer(offered('a:1'));
  await until(() => begun > 0);
  await agent.stop();
  assert.deepEqual(site.kit.names('jobs/stale'), [nameOf('a:1')]);
  const { spool } = site.kit;
  await site.start(new SpoolManager({ env, spool, intervalMs: 5, backoff: NO_BACKOFF }));
  const person = await Actor.open(spool, 'person');
  assert.equal(await requeueByOrder(person, 'stale', nameOf('a:1')), 'refused');
  await person.close();
  await site.agent(echo);
  // The manager and the agent have seen the spool when another job was retried and run.
  site.kit.put('completed/failed/other', {
    'prompt.json': '{}',
    'job.json': JSON.stringify({ status: 'failed', 'schema-version': '1.0.0', moves: 1 }),
  });
  await until(() => site.kit.names('completed/succeeded').includes('other'));
  assert.deepEqual([site.kit.names('jobs/stale'), begun], [[nameOf('a:1')], 1]);
  const status = (await backend.inspect(['a:1'], WHO)).known.get('a:1');
  assert.deepEqual(status, { is: 'forgotten', why: 'its agent was stopped' });
  assert.deepEqual(
    await backend.offer(offered('a:1')),
    { is: 'accepted' },
    'a copy of the offer begins nothing',
  );
  assert.deepEqual(site.kit.names('incoming'), []);
});

test('a job that the disk has kept its brain from killing or erasing is killed and erased later', async (t) => {
  const site = await Site.make(t);
  let isFull = false;
  const open = (path: string, mode: OpenMode): Promise<DiskFile> =>
    isFull && path.endsWith('job.json.tmp')
      ? Promise.reject(Object.assign(new Error('no space is left'), { code: 'ENOSPC' }))
      : env.disk.open(path, mode);
  const disk = new Proxy(env.disk, {
    get(real, name) {
      const call: unknown = name === 'open' ? open : Reflect.get(real, name);
      return typeof call === 'function' ? call.bind(real) : call;
    },
  });
  const { spool } = site.kit;
  const { backend } = await site.executions({ ...spool, env: { ...spool.env, disk } });
  await backend.offer(offered('a:1'));
  isFull = true;
  await assert.rejects(backend.kill('a:1', WHO), { code: 'ENOSPC' });
  isFull = false;
  assert.deepEqual(await backend.kill('a:1', WHO), { is: 'ended', outcome: { ok: 'cancelled' } });
  isFull = true;
  await assert.rejects(async () => backend.erase?.('a:1', WHO), { code: 'ENOSPC' });
  isFull = false;
  assert.deepEqual((await backend.inspect(['a:1'], WHO)).known.get('a:1')?.is, 'ended');
  await backend.erase?.('a:1', WHO);
  assert.equal((await backend.offer(offered('a:1'))).is, 'refused');
});

test('what an agent of another program has spoiled in a job stops no other job of the brain', async (t) => {
  const site = await Site.make(t);
  const { backend } = await site.executions();
  const put = (place: string, token: string, more: object): void => {
    const job = { 'schema-version': '1.0.0', status: 'failed', token, ...more };
    site.kit.put(`${place}/${nameOf(token)}`, { 'prompt.json': '{}', 'job.json': JSON.stringify(job) });
  };
  put('completed/failed', 'a:1', { reason: null });
  put('completed/failed', 'b:1', { reason: { exit: 3 } });
  put('completed/failed', 'c:1', { 'schema-version': '9.0.0' });
  put('in-progress/other', 'd:1', {});
  fs.writeFileSync(site.kit.path('in-progress/other', nameOf('d:1'), 'job.json'), '{"status":');
  const { known } = await backend.inspect(['a:1', 'b:1', 'c:1', 'd:1'], WHO);
  const messages = ['a:1', 'b:1', 'c:1'].map((token) => {
    const status = known.get(token);
    assert.ok(status?.is === 'ended' && status.outcome.ok === false, token);
    return status.outcome.error.message;
  });
  assert.deepEqual(messages, ['it failed', '{"exit":3}', 'its job.json cannot be read']);
  assert.equal(known.get('d:1')?.is, 'running');
});

test('an acknowledged job is removed when its time is over; the folders of other brains and of people stay', async (t) => {
  const site = await Site.make(t);
  const { backend, executions } = await site.executions();
  const other: Commander = { owner: 'other', epoch: 1 };
  await site.agent(echo);
  for (const who of [WHO, other]) await backend.offer(offered('a:1', who));
  await backend.offer(offered('b:1'));
  site.kit.put('incoming/mine', { 'prompt.json': '{}' });
  const all = ['mine', nameOf('a:1'), nameOf('a:1', other), nameOf('b:1')].sort();
  await until(() => site.kit.names('completed/succeeded').join() === all.join());
  await backend.ack('a:1', WHO);
  await executions.ended.sweep();
  const left = all.filter((name) => name !== nameOf('a:1'));
  assert.deepEqual(site.kit.names('completed/succeeded'), left);
  const { others } = await backend.inspect([], WHO);
  assert.deepEqual(others, [{ token: 'b:1', isRunning: false }], 'what was not acknowledged is reported');
});

test('what a crash has left of an erasure is erased by the next brain, and the token stays refused', async (t) => {
  const site = await Site.make(t);
  const { backend } = await site.executions();
  const agent = await site.agent(
    functionHandler((_, { events }) => {
      fs.appendFileSync(events, '{"t":"said here"}\n');
      return { answer: 'said here' };
    }),
  );
  await backend.offer(offered('a:1', WHO, { ask: 'said here' }));
  assert.equal((await followEnd(backend, 'a:1')).is, 'ended');
  await agent.stop();
  const folder = `completed/succeeded/${nameOf('a:1')}`;
  const job = JSON.parse(fs.readFileSync(site.kit.path(folder, 'job.json'), 'utf8')) as object;
  fs.writeFileSync(site.kit.path(folder, 'job.json'), JSON.stringify({ ...job, tombstone: true }));
  const next = await site.executions();
  await next.backend.inspect([], WHO);
  await next.executions.ended.sweep();
  const texts = site.kit.names(folder).map((name) => fs.readFileSync(site.kit.path(folder, name), 'utf8'));
  assert.ok(!texts.join().includes('said here'), texts.join());
  assert.equal((await next.backend.offer(offered('a:1'))).is, 'refused');
  assert.deepEqual(await checkSpool(site.kit.spool), []);
});

test('a job of an orchestrator goes through the spool: what its handler says is followed, and its result comes back', async (t) => {
  const site = await Site.make(t);
  await site.agent(
    functionHandler((prompt, { events, jobId, type, model }) => {
      for (const word of ['one ', 'two']) fs.appendFileSync(events, `${JSON.stringify({ t: word })}\n`);
      return { prompt, jobId, type, model };
    }),
  );
  const orchestrator = await createOrchestrator({ data: 'memory', backends: [], sources: [site.source()] });
  t.after(() => orchestrator.stop());
  await orchestrator.submit({ job_id: 'a', type: 'talk', payload: { ask: 'x' }, wait_for_backend: true });
  const heard: unknown[] = [];
  for await (const { type, data } of orchestrator.events('a'))
    if (type === 'token') heard.push((data as { t: string }).t);
  assert.deepEqual(heard, ['one ', 'two']);
  const { state, result } = await orchestrator.get('a');
  assert.deepEqual([state, result], ['succeeded', { prompt: { ask: 'x' }, jobId: 'a', type: 'talk' }]);
});
