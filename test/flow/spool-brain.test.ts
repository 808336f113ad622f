/** A spool whose agent hands the jobs to a brain: nothing runs twice, whoever is stopped, and the end is the job's. */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { type TestContext, test } from 'node:test';
import type { FunctionContext } from '../../src/backends/local/functions.ts';
import { brainOf } from '../../src/cli/spool/brain.ts';
import { OrchdClient } from '../../src/client/client.ts';
import { SpoolAgent } from '../../src/daemons/spool/agent.ts';
import { BrainJobs } from '../../src/daemons/spool/brain-jobs.ts';
import { SpoolManager } from '../../src/daemons/spool/manager.ts';
import { SpoolWatchdog } from '../../src/daemons/spool/watchdog.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { poll } from '../../src/kit/poll.ts';
import type { Service } from '../../src/kit/service.ts';
import { Actor } from '../../src/spool/actor.ts';
import { checkSpool } from '../../src/spool/invariants.ts';
import { orderKill, requeueByOrder } from '../../src/spool/retry.ts';
import { submitJob } from '../../src/spool/submit.ts';
import { makeToken } from '../../src/wire/tokens.ts';
import { type HttpBrain, type HttpBrainOptions, httpBrain } from '../fakes/http-brain.ts';
import { makeSpoolKit, type SpoolKit } from '../fakes/spool-kit.ts';
import { type HowToRun, type Running, start } from './cli-process.ts';

const env = realEnv();
const SPOOL_ID = '0123456789abcdef';
const NO_BACKOFF = { baseDelayMs: 1, maxDelayMs: 1, jitter: 0 };
const PATIENCE = { everyMs: 5, atMostMs: 20_000 };
const idOf = (name: string, n = 1): string => `spool.${SPOOL_ID}.${name}.${n}`;

class Site {
  readonly kit: SpoolKit;
  readonly #t: TestContext;
  /** The jobs that the backend of the brain has begun and finished, in order. */
  readonly begun: string[] = [];
  readonly finished: string[] = [];
  readonly gate = Promise.withResolvers<void>();
  brain!: HttpBrain;

  constructor(t: TestContext, kit: SpoolKit) {
    this.#t = t;
    this.kit = kit;
  }

  static async make(t: TestContext, options: HttpBrainOptions = {}): Promise<Site> {
    const site = new Site(t, await makeSpoolKit(t, { settings: { settleMs: 0, maxRetries: 2 } }));
    const inference = ({ prompt }: { prompt: string }, { jobId }: FunctionContext) => {
      site.begun.push(jobId);
      site.finished.push(jobId);
      return { text: prompt };
    };
    const held = async (_: unknown, { jobId, signal }: FunctionContext) => {
      site.begun.push(jobId);
      const stopped = new Promise((_resolve, reject) => signal.addEventListener('abort', reject));
      await Promise.race([site.gate.promise, stopped]);
      site.finished.push(jobId);
      return 'held';
    };
    const fail = (_: unknown, { jobId }: FunctionContext) => {
      site.begun.push(jobId);
      throw Object.assign(new Error('no luck'), { retriable: false });
    };
    const backends = [{ name: 'local', slots: 4, types: { inference, held, fail } }];
    site.brain = await httpBrain({ backends, disconnectGraceMs: 1, ...options });
    t.after(() => site.brain.stop());
    return site;
  }

  async start<T extends Service>(service: T): Promise<T> {
    this.#t.after(() => service.stop());
    await service.start();
    return service;
  }

  agent({ url = this.brain.url, token }: { url?: string; token?: string } = {}): Promise<SpoolAgent> {
    const { spool } = this.kit;
    const brain = brainOf(new OrchdClient({ url, ...(token !== undefined && { token }) }));
    const { handler } = new BrainJobs({ env, spool, spoolId: SPOOL_ID, brain });
    return this.start(new SpoolAgent({ env, spool, handler, slots: 12, stopGraceMs: 0 }));
  }

  manager(): Promise<SpoolManager> {
    const { spool } = this.kit;
    return this.start(new SpoolManager({ env, spool, intervalMs: 20, backoff: NO_BACKOFF }));
  }

  async as<T>(work: (person: Actor) => Promise<T>): Promise<T> {
    const person = await Actor.open(this.kit.spool, 'person');
    return work(person).finally(() => person.close());
  }

  submit(name: string, prompt: unknown): Promise<void> {
    return this.as((person) => submitJob(person, { name, prompt }));
  }

  async until(what: string, isSo: () => boolean): Promise<void> {
    const found = await poll(env, PATIENCE, () => (isSo() ? true : undefined));
    assert.ok(found, `it never came to pass that ${what}`);
  }

  has(place: string, ...names: string[]): Promise<void> {
    return this.until(`${place} has ${names}`, () => this.kit.names(place).join() === names.sort().join());
  }

  json(path: string): Record<string, unknown> {
    return JSON.parse(fs.readFileSync(this.kit.path(path), 'utf8')) as Record<string, unknown>;
  }

  async state(id: string): Promise<string> {
    return (await new OrchdClient({ url: this.brain.url }).get(id)).state;
  }
}

test('a folder that is dropped comes back with the result of the brain', async (t) => {
  const site = await Site.make(t);
  await site.agent();
  await site.submit('asked', { prompt: 'Why?', tags: { from: 'spool' } });
  site.kit.put('incoming/a text', { 'prompt.json': '"And at night?"' });
  await site.has('completed/succeeded', 'asked', 'a text');
  assert.deepEqual(site.json('completed/succeeded/asked/result.json'), { text: 'Why?' });
  assert.deepEqual(site.json('completed/succeeded/a text/result.json'), { text: 'And at night?' });
  assert.ok(site.finished.includes(idOf('asked')));
});

test('an agent that is stopped leaves the job at the brain, and the next one gets its result', async (t) => {
  const site = await Site.make(t);
  const first = await site.agent();
  // Interactive: a brain cancels such a job when nobody follows it, unless it is told not to.
  await site.submit('job', { type: 'held', payload: 1, priority: 'interactive' });
  await site.until('the job has begun', () => site.begun.length === 1);
  await first.stop();
  assert.deepEqual(site.kit.names('incoming'), ['job']);
  assert.deepEqual(await checkSpool(site.kit.spool), []);
  assert.equal(await site.state(idOf('job')), 'running');
  await site.agent();
  site.gate.resolve();
  await site.has('completed/succeeded', 'job');
  assert.equal(site.json('completed/succeeded/job/job.json')['attempt'], 2);
  assert.deepEqual([site.begun, site.finished], [[idOf('job')], [idOf('job')]]);
});

test('a job that failed at the brain is another job there when it is retried, also after a requeue', async (t) => {
  const site = await Site.make(t);
  await site.agent();
  const manager = await site.manager();
  await site.submit('job', { type: 'fail', payload: 1, max_tries: 1 });
  await site.has('completed/killed', 'job');
  assert.deepEqual(
    site.begun,
    [1, 2, 3].map((n) => idOf('job', n)),
  );
  const history = fs.readFileSync(site.kit.path('completed/killed/job/history.jsonl'), 'utf8');
  assert.match(history, /"to":"failed".*"reason":"EXECUTION_FAILED: no luck"/);
  await manager.stop();
  await site.as((person) => requeueByOrder(person, 'killed', 'job'));
  await site.has('completed/failed', 'job');
  assert.equal(site.begun.at(-1), idOf('job', 4));
});

test('what the brain refuses for good is the reason of the failure', async (t) => {
  const site = await Site.make(t);
  await site.agent();
  await site.submit('wrong', { promt: 'Why?' });
  await site.submit('list', ['Why?']);
  await site.submit('keyed', { prompt: 'Why?', key: 'mine' });
  await site.has('completed/failed', 'wrong', 'list', 'keyed');
  const reason = (name: string): unknown => site.json(`completed/failed/${name}/job.json`)['reason'];
  assert.match(String(reason('wrong')), /^INVALID_PARAMS: .*promt/);
  assert.match(String(reason('list')), /neither a request for a brain nor a text/);
  assert.match(String(reason('keyed')), /prompt\.json has a key/);
});

test('a kill cancels the job at the brain; a requeue asks for a new one', async (t) => {
  const site = await Site.make(t);
  const agent = await site.agent();
  await site.submit('job', { type: 'held', payload: 1 });
  await site.until('the job has begun', () => site.begun.length === 1);
  await site.as((person) => orderKill(person, agent.id as string, 'job'));
  await site.has('completed/killed', 'job');
  assert.equal(await site.state(idOf('job')), 'cancelled');
  site.gate.resolve();
  await site.as((person) => requeueByOrder(person, 'killed', 'job'));
  await site.has('completed/succeeded', 'job');
  assert.deepEqual(site.finished, [idOf('job', 2)]);
});

test('a job whose agent was stopped is killed before it is asked for again, and cancelled at the brain', async (t) => {
  const site = await Site.make(t);
  const first = await site.agent();
  await site.submit('job', { type: 'held', payload: 1 });
  await site.until('the job has begun', () => site.begun.length === 1);
  await first.stop();
  fs.writeFileSync(site.kit.path('incoming/job/kill'), '');
  await site.agent();
  await site.has('completed/killed', 'job');
  assert.equal(await site.state(idOf('job')), 'cancelled');
});

test('jobs wait with their agent while there is no brain, and a stop brings them back', async (t) => {
  const site = await Site.make(t);
  const gone = await httpBrain({});
  await gone.stop();
  const agent = await site.agent({ url: gone.url });
  await site.submit('a', { prompt: 'a' });
  await site.submit('b', { prompt: 'b' });
  const outages = () => site.kit.lines.filter(({ error_code }) => error_code === 'UNREACHABLE');
  await site.until('the outage is logged', () => outages().length > 0);
  await site.until('both wait', () => site.kit.names('in-progress', agent.id as string).join() === 'a,b');
  await agent.stop();
  assert.deepEqual(site.kit.names('incoming'), ['a', 'b']);
  assert.equal(site.json('incoming/a/job.json')['retry_count'], 0);
  assert.equal(outages().length, 1, 'an outage is one line, however many jobs wait');
  await site.agent();
  await site.has('completed/succeeded', 'a', 'b');
});

test('an agent that waits for a brain to carry out a kill can be stopped; the kill stands', async (t) => {
  const site = await Site.make(t);
  const gone = await httpBrain({});
  await gone.stop();
  site.kit.put('incoming/job', { 'prompt.json': '{"prompt":"a"}', kill: '' });
  const agent = await site.agent({ url: gone.url });
  await site.until('the brain was told', () =>
    site.kit.lines.some(({ error_code }) => error_code === 'UNREACHABLE'),
  );
  await agent.stop();
  assert.deepEqual(site.kit.names('incoming'), ['job']);
  await site.agent();
  await site.has('completed/killed', 'job');
  assert.deepEqual(site.begun, []);
});

test('a full queue is waited for: no job fails because there are many', async (t) => {
  const site = await Site.make(t, { config: 'orchestrator: { queue_capacity: 1 }' });
  await site.agent();
  const names = Array.from({ length: 12 }, (_, n) => `j${String(n).padStart(2, '0')}`);
  for (const name of names) await site.submit(name, { type: 'held', payload: 1 });
  await site.until('the brain refuses some', () =>
    site.kit.lines.some(({ error_code }) => error_code === 'QUEUE_FULL'),
  );
  site.gate.resolve();
  await site.has('completed/succeeded', ...names);
  assert.equal(new Set(site.begun).size, site.begun.length);
});

test('a token that the brain does not take fails no job', async (t) => {
  const { token, entry } = makeToken(env.random, 0, 'spool', 'submit');
  const site = await Site.make(t, { tokens: [entry] });
  await site.submit('job', { prompt: 'a' });
  const wrong = await site.agent({ token: 'wrong' });
  await site.until('it is logged', () =>
    site.kit.lines.some(({ error_code }) => error_code === 'UNAUTHORIZED'),
  );
  assert.deepEqual(site.kit.names('completed/failed'), []);
  await wrong.stop();
  await site.agent({ token });
  await site.has('completed/succeeded', 'job');
});

test('a job of a killed agent is stale while the brain runs it, and its next agent waits for the same run', {
  timeout: 60_000,
}, async (t) => {
  const { token, entry } = makeToken(env.random, 0, 'spool', 'submit');
  const site = await Site.make(t, { tokens: [entry] });
  const up = async (how: HowToRun, ...words: string[]): Promise<Running> => {
    const fast = ['--interval', '20ms', '--retry-delay', '1ms'];
    const running = start(
      ['spool', 'up', site.kit.folder, '--brain', site.brain.url, ...fast, ...words],
      how,
    );
    t.after(() => running.child.kill('SIGKILL'));
    await running.saw('err', /at work/);
    return running;
  };
  const first = await up({ env: { ORCHD_TOKEN: token } });
  await site.submit('job', { type: 'held', payload: 1 });
  await site.until('the job has begun', () => site.begun.length === 1);
  first.child.kill('SIGKILL');
  await first.ended;
  await up({}, '--token', token);
  const historyOf = (): string => {
    const [agent = ''] = site.kit
      .names('in-progress')
      .filter((id) => site.kit.names('in-progress', id).length);
    const file = site.kit.path('in-progress', agent, 'job/history.jsonl');
    return fs.existsSync(file) ? fs.readFileSync(file, 'utf8') : '';
  };
  await site.until('another agent has it', () =>
    /"to":"stale".*"to":"queued".*"to":"in-progress"/s.test(historyOf()),
  );
  site.gate.resolve();
  await site.has('completed/succeeded', 'job');
  assert.equal(site.begun.length, 1);
  assert.deepEqual(site.begun, site.finished);
  assert.equal(site.json('completed/succeeded/job/job.json')['retry_count'], 1);
});

test('a kill that came after the agent had died is carried out at the brain, as soon as it answers', async (t) => {
  const site = await Site.make(t);
  const { spool } = site.kit;
  // What a dead agent leaves of a job that it had asked for.
  const id = idOf('job');
  const client = new OrchdClient({ url: site.brain.url });
  await client.submit({ type: 'held', payload: 1, job_id: id, on_disconnect: 'continue' });
  await site.until('the job has begun', () => site.begun.length === 1);
  const owner = {
    hostname: spool.host.hostname,
    ...spool.host.self,
    pid: 2 ** 22,
    nonce: 'n',
    actor: 'gone-1',
  };
  site.kit.put('tmp/gone-1', { 'owner.json': JSON.stringify(owner) });
  site.kit.put('in-progress/gone-1/job', {
    'prompt.json': '{"type":"held","payload":1}',
    'job.json': '{"status":"in-progress","schema-version":"1.0.0","attempt":1}',
    kill: '',
  });
  const gone = await httpBrain({});
  await gone.stop();
  const watchdog = (url: string): SpoolWatchdog => {
    const runs = new BrainJobs({ env, spool, spoolId: SPOOL_ID, brain: brainOf(new OrchdClient({ url })) });
    return new SpoolWatchdog({ env, spool, intervalMs: 20, runs });
  };
  const early = await site.start(watchdog(gone.url));
  await site.until('the brain was asked', () =>
    site.kit.lines.some(({ error_code }) => error_code === 'UNREACHABLE'),
  );
  await early.stop();
  assert.deepEqual(site.kit.names('in-progress/gone-1'), ['job']);
  await site.start(watchdog(site.brain.url));
  await site.manager();
  await site.has('completed/killed', 'job');
  assert.equal(await site.state(id), 'cancelled');
});
