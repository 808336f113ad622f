/** Agents, watchdogs and managers in one process, on a real disk. */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { test } from 'node:test';
import { functionHandler, type JobHandler } from '../../src/daemons/spool/handler.ts';
import type { Timers } from '../../src/kit/env/env.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { poll } from '../../src/kit/poll.ts';
import { ServiceList } from '../../src/kit/service-list.ts';
import { Actor } from '../../src/spool/actor.ts';
import { checkSpool } from '../../src/spool/invariants.ts';
import { orderKill } from '../../src/spool/retry.ts';
import type { SpoolKit } from '../fakes/spool-kit.ts';
import { SETTINGS, SpoolServices } from './spool-services.ts';

const env = realEnv();

const echo = functionHandler((prompt) => ({ answer: prompt }));

test('jobs that are dropped by a rename or made in place are run, and their results are in the folder', async (t) => {
  const site = await SpoolServices.make(t);
  await site.submit('before');
  await site.start(site.agent(echo));
  await site.submit('after');
  site.kit.put('incoming/by hand', { 'prompt.json': '{"by":"hand"}' });
  await site.has('completed/succeeded', 'after', 'before', 'by hand');
  assert.deepEqual(site.json('completed/succeeded/by hand/result.json'), { answer: { by: 'hand' } });
  const { status, attempt, 'schema-version': version } = site.json('completed/succeeded/after/job.json');
  assert.deepEqual([status, attempt, version], ['succeeded', 1, '1.0.0']);
});

test('an agent keeps nothing of the timers for jobs that were made in place and have ended', async (t) => {
  let cancelled = 0;
  const timers: Timers = {
    ...env.timers,
    after: (ms, run) => {
      const cancel = env.timers.after(ms, run);
      return () => {
        cancelled++;
        cancel();
      };
    },
  };
  const settings = { ...SETTINGS.settings, settleMs: 300 };
  const site = await SpoolServices.make(t, { env: { ...env, timers }, settings });
  const agent = await site.start(site.agent(echo));
  const names = Array.from({ length: 30 }, (_, n) => `made-${n}`);
  for (const name of names) site.kit.put(`incoming/${name}`, { 'prompt.json': '{}' });
  await site.has('completed/succeeded', ...names);
  await site.has('incoming');
  cancelled = 0;
  await agent.stop();
  assert.ok(cancelled < names.length, `${cancelled} timers were cancelled at the stop`);
});

test('a job that fails is queued again while it has retries, and is killed then', async (t) => {
  const site = await SpoolServices.make(t);
  let runs = 0;
  await site.start(site.manager());
  await site.start(
    site.agent(async () => {
      runs++;
      throw new Error('no luck');
    }),
  );
  await site.submit('job');
  await site.has('completed/killed', 'job');
  assert.equal(runs, 3);
  const { retry_count, reason } = site.json('completed/killed/job/job.json');
  assert.deepEqual([retry_count, reason], [2, 'failed after 2 retries']);
  const history = fs.readFileSync(site.kit.path('completed/killed/job/history.jsonl'), 'utf8');
  const moves = history
    .trim()
    .split('\n')
    .map((line) => (JSON.parse(line) as { to: string }).to);
  const once = ['in-progress', 'failed'];
  assert.deepEqual(moves, [...once, 'queued', ...once, 'queued', ...once, 'killed']);
  const logged = () =>
    site.kit.lines.flatMap(({ event }) => (event?.type === 'state_transition' ? [event.to] : []));
  // The line comes after the move.
  await poll(env, { everyMs: 5, atMostMs: 20_000 }, () =>
    logged().length < moves.length ? undefined : true,
  );
  assert.deepEqual(logged(), moves, 'every change is a line of the log');
});

test('[FARRO-7] a manager queues stale and failed jobs again while they have retries, and kills the others', async (t) => {
  const site = await SpoolServices.make(t);
  const put = (folder: string, status: string, retry_count: number): void => {
    const job = { status, 'schema-version': '1.0.0', retry_count, max_retries: 2 };
    site.kit.put(folder, { 'prompt.json': '{}', 'job.json': JSON.stringify(job) });
  };
  put('jobs/stale/stale-1', 'stale', 1);
  put('jobs/stale/stale-2', 'stale', 2);
  put('completed/failed/failed-1', 'failed', 1);
  put('completed/failed/failed-2', 'failed', 2);
  await site.start(site.manager());
  await site.has('incoming', 'failed-1', 'stale-1');
  await site.has('completed/killed', 'failed-2', 'stale-2');
  for (const name of ['failed-1', 'stale-1']) {
    const { status, retry_count } = site.json(`incoming/${name}/job.json`);
    assert.deepEqual([status, retry_count], ['queued', 2]);
  }
});

test('a job runs no longer than its time', async (t) => {
  const site = await SpoolServices.make(t, { settings: { ...SETTINGS.settings, maxRetries: 0 } });
  const untilAborted: JobHandler = ({ signal }) =>
    new Promise((resolve) =>
      signal.addEventListener('abort', () => resolve({ ok: false, reason: 'aborted' })),
    );
  await site.start(site.agent(untilAborted, { timeoutMs: 30 }));
  await site.submit('job');
  await site.has('completed/failed', 'job');
  assert.equal(site.json('completed/failed/job/job.json')['reason'], 'it ran longer than 30 ms');
});

test('a kill in the folder of a running job ends it', async (t) => {
  const site = await SpoolServices.make(t);
  const begun = Promise.withResolvers<string>();
  const agent = await site.start(
    site.agent(({ signal, folder }) => {
      begun.resolve(folder);
      return new Promise((resolve) =>
        signal.addEventListener('abort', () => resolve({ ok: false, reason: '' })),
      );
    }),
  );
  await site.submit('job');
  await begun.promise;
  const person = await Actor.open(site.kit.spool, 'person');
  t.after(() => person.close());
  assert.equal(await orderKill(person, agent.id as string, 'job'), 'ordered');
  await site.has('completed/killed', 'job');
});

test('an agent that is stopped lets its jobs end, or brings them back; nothing of it is left', async (t) => {
  const site = await SpoolServices.make(t);
  const begun = Promise.withResolvers<void>();
  const finish = Promise.withResolvers<void>();
  const handler: JobHandler = async ({ name, signal }) => {
    if (name === 'long') {
      begun.resolve();
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      return { ok: false, reason: 'aborted' };
    }
    await finish.promise;
    return { ok: true, result: 1 };
  };
  const agent = await site.start(site.agent(handler, { stopGraceMs: 100 }));
  await site.submit('long', 'short');
  await begun.promise;
  const stopped = agent.stop();
  finish.resolve();
  await stopped;
  assert.deepEqual(site.kit.names('completed/succeeded'), ['short']);
  assert.deepEqual(site.kit.names('incoming'), ['long']);
  assert.equal(site.json('incoming/long/job.json')['retry_count'], 0);
  for (const folder of ['tmp', 'in-progress']) assert.deepEqual(site.kit.names(folder), []);
  assert.deepEqual(await checkSpool(site.kit.spool), []);
});

test('an agent whose folders are removed goes on under another id', async (t) => {
  const site = await SpoolServices.make(t);
  const agent = await site.start(site.agent(echo));
  const before = agent.id as string;
  fs.rmSync(site.kit.path('tmp', before), { recursive: true });
  fs.rmSync(site.kit.path('in-progress', before), { recursive: true });
  await site.submit('job');
  await site.has('completed/succeeded', 'job');
  assert.notEqual(agent.id, before);
});

test('the folders in tmp are removed under an agent: its jobs are not stuck with it', async (t) => {
  const site = await SpoolServices.make(t);
  await site.start(site.watchdog());
  await site.start(site.manager());
  const gate = Promise.withResolvers<void>();
  const handler: JobHandler = async ({ name, attempt, signal }) => {
    const stopped = new Promise<void>((resolve) => {
      signal.addEventListener('abort', () => resolve());
    });
    if (attempt === 1) await (name === 'failing' ? gate.promise : stopped);
    return attempt === 1 ? { ok: false, reason: 'the first try' } : { ok: true, result: attempt };
  };
  const agent = await site.start(site.agent(handler));
  const before = agent.id as string;
  await site.submit('failing', 'running');
  await site.until(
    () => site.kit.lines.filter(({ event }) => event?.to === 'in-progress').length === 2,
    () => 'both jobs are begun',
  );
  for (const name of site.kit.names('tmp')) fs.rmSync(site.kit.path('tmp', name), { recursive: true });
  // One ends before the agent notices, and has a lock to release; the other one is stopped then.
  gate.resolve();
  await site.has('completed/succeeded', 'failing', 'running');
  assert.notEqual(agent.id, before);
  await site.has('in-progress', agent.id as string);
  await site.has('incoming');
});

const BAD_PLACES: Readonly<
  Record<string, { spoil: (kit: SpoolKit) => void; mend: (kit: SpoolKit) => void }>
> = {
  'is taken': {
    spoil: (kit) => kit.put('completed/succeeded/job', { 'note.txt': 'of a person' }),
    mend: (kit) => fs.rmSync(kit.path('completed/succeeded/job'), { recursive: true }),
  },
  'is missing': {
    spoil: (kit) => fs.rmdirSync(kit.path('completed/succeeded')),
    mend: (kit) => fs.mkdirSync(kit.path('completed/succeeded')),
  },
};

for (const [what, { spoil, mend }] of Object.entries(BAD_PLACES))
  test(`a job whose place ${what} goes there when somebody has mended that, while its agent lives`, async (t) => {
    const site = await SpoolServices.make(t);
    const gate = Promise.withResolvers<void>();
    await site.start(site.agent(functionHandler(() => gate.promise)));
    await site.submit('job');
    await site.until(
      () => site.kit.lines.some(({ event }) => event?.to === 'in-progress'),
      () => 'the job is begun',
    );
    spoil(site.kit);
    gate.resolve();
    await site.until(
      () => site.kit.lines.some(({ level }) => level === 'critical'),
      () => `the log says that its place ${what}`,
    );
    mend(site.kit);
    await site.has('completed/succeeded', 'job');
    await site.has('incoming');
    assert.deepEqual(await checkSpool(site.kit.spool), []);
  });

test('an agent whose released locks are removed from tmp makes others', async (t) => {
  const site = await SpoolServices.make(t);
  const agent = await site.start(site.agent(echo));
  const before = agent.id as string;
  await site.submit('first');
  await site.has('completed/succeeded', 'first');
  await site.has('incoming');
  const work = site.kit.path('tmp', before, 'work');
  for (const name of fs.readdirSync(work)) fs.rmSync(`${work}/${name}`, { recursive: true });
  await site.submit('second');
  await site.has('completed/succeeded', 'first', 'second');
  assert.equal(agent.id, before);
});

test('a lock of an agent that it does not know to have any more keeps no job from it', async (t) => {
  const site = await SpoolServices.make(t);
  const agent = await site.start(site.agent(echo));
  // Whoever breaks a lock that is another one by now puts it back, and its agent may have released it in between.
  const { hostname, self } = site.kit.spool.host;
  const owner = JSON.stringify({ hostname, ...self, nonce: 'put back', actor: agent.id });
  site.kit.put('incoming/job.lock', { 'owner.json': owner });
  await site.submit('job');
  await site.has('completed/succeeded', 'job');
  await site.has('incoming');
});

test('a job whose function returns what is no JSON has failed', async (t) => {
  const site = await SpoolServices.make(t);
  const circle: Record<string, unknown> = {};
  circle['self'] = circle;
  const results: Readonly<Record<string, unknown>> = { bigint: 5n, circle, function: () => 1, number: 1 };
  await site.start(
    site.agent(functionHandler((prompt) => results[(prompt as { readonly name: string }).name])),
  );
  await site.submit(...Object.keys(results));
  await site.has('completed/failed', 'bigint', 'circle', 'function');
  await site.has('completed/succeeded', 'number');
  await site.has('incoming');
  const { reason } = JSON.parse(fs.readFileSync(site.kit.path('completed/failed/function/job.json'), 'utf8'));
  assert.equal(reason, 'its result cannot be kept: it is no JSON');
  assert.deepEqual(await checkSpool(site.kit.spool), []);
});

test('in-progress is removed under an agent: jobs wait, and are run when it is there again', async (t) => {
  const site = await SpoolServices.make(t);
  await site.start(site.agent(echo));
  fs.rmSync(site.kit.path('in-progress'), { recursive: true });
  await site.submit('job').catch(() => undefined);
  site.kit.put('incoming/other', { 'prompt.json': '{}' });
  const complaint = await poll(env, { everyMs: 5, atMostMs: 20_000 }, () =>
    site.kit.lines.find(({ level }) => level === 'error'),
  );
  assert.ok(complaint);
  assert.ok(
    (await checkSpool(site.kit.spool)).some(
      ({ code, path }) => code === 'FOLDER_MISSING' && path === 'in-progress',
    ),
  );
  assert.ok(site.kit.names('incoming').includes('other'));
  fs.mkdirSync(site.kit.path('in-progress'));
  const names = site.kit.names('incoming').filter((name) => !name.endsWith('.lock'));
  await site.has('completed/succeeded', ...names);
});

test('the order of names is the order of the queue', async (t) => {
  const site = await SpoolServices.make(t);
  const order: string[] = [];
  const name = (text: string): string => text.replace('-', '-20260101T000000000-');
  const names = ['p9-x', 'p5-b', 'p5-a', 'free', 'p0-z'].map(name);
  await site.submit(...names);
  const then = Date.now() / 1000 - 60;
  fs.utimesSync(site.kit.path('incoming/free/prompt.json'), then, then);
  await site.start(
    site.agent(
      async ({ name }) => {
        order.push(name);
        return { ok: true, result: 1 };
      },
      { slots: 1 },
    ),
  );
  await site.has('completed/succeeded', ...names);
  assert.deepEqual(order, ['p0-z', 'free', 'p5-a', 'p5-b', 'p9-x'].map(name));
});

test('agents, watchdogs and managers share a spool: every job ends once, and nothing is left', {
  timeout: 60_000,
}, async (t) => {
  const site = await SpoolServices.make(t);
  const runs = new Map<string, number>();
  const handler: JobHandler = async ({ name, attempt }) => {
    runs.set(name, (runs.get(name) ?? 0) + 1);
    if (Number(name.slice(1)) % 5 === 0 && attempt === 1) throw new Error('the first try fails');
    return { ok: true, result: name };
  };
  const names = Array.from({ length: 60 }, (_, n) => `j${n}`);
  const services = [
    site.watchdog(),
    site.watchdog(),
    site.manager(),
    site.manager(),
    ...Array.from({ length: 4 }, () => site.agent(handler)),
  ];
  const all = new ServiceList(services);
  t.after(() => all.stop());
  await all.start();
  await site.submit(...names);
  await site.has('completed/succeeded', ...names);
  await all.stop();
  for (const name of names) assert.equal(runs.get(name), Number(name.slice(1)) % 5 === 0 ? 2 : 1, name);
  for (const folder of ['tmp', 'in-progress', 'incoming', 'jobs/stale'])
    assert.deepEqual(site.kit.names(folder), []);
  assert.deepEqual(await checkSpool(site.kit.spool), []);
});
