import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { engineOf } from '../../test/fakes/engine-of.ts';
import { VirtualEnv } from '../../test/flow/virtual-env.ts';
import { createOrchestrator } from '../app/library.ts';
import type {
  Backend,
  BackendInfo,
  ExecutionStatus,
  FollowEnd,
  Inspection,
  KillHow,
  KillReply,
  Offer,
  OfferReply,
} from '../core/ports/backend.ts';

const DONE: ExecutionStatus = { is: 'ended', outcome: { ok: true, resultText: '"done"' } };

/** An executor whose executions are what the test puts there. It never ends one by itself. */
class Executor implements Backend {
  info: BackendInfo = {
    name: 'exec',
    kind: 'test',
    slots: 10,
    types: ['t'],
    models: undefined,
    labels: {},
    paid: true,
    keepsResults: true,
    registry: 'first',
  };
  readonly executions = new Map<string, ExecutionStatus>();
  readonly killed: string[] = [];
  readonly acked: string[] = [];
  /** The readers of running executions, by token. */
  readonly readers = new Map<string, (end: FollowEnd) => void>();
  silent = false;
  /** By how much its clock is wrong. */
  wrongByMs: number | undefined;
  since = 0;
  readonly #now: () => number;

  constructor(now: () => number) {
    this.#now = now;
  }

  async offer({ token }: Offer): Promise<OfferReply> {
    if (!this.executions.has(token)) this.executions.set(token, { is: 'running' });
    return { is: 'accepted' };
  }

  async inspect(tokens: readonly string[]): Promise<Inspection> {
    if (this.silent) throw new Error('no answer');
    const known = new Map([...this.executions].filter(([token]) => tokens.includes(token)));
    const others = [...this.executions]
      .filter(([token]) => !tokens.includes(token))
      .map(([token, { is }]) => ({ token, isRunning: is === 'running' }));
    const { registry } = this.info;
    const clock = this.wrongByMs !== undefined && { executorNow: this.#now() + this.wrongByMs };
    return { registry, rememberedSince: this.since + (this.wrongByMs ?? 0), known, others, ...clock };
  }

  follow(token: string, _: number, __: unknown, ___: unknown, signal?: AbortSignal): Promise<FollowEnd> {
    const status = this.executions.get(token);
    if (!status) return Promise.resolve({ is: 'lost' });
    if (status.is !== 'running') return Promise.resolve(status);
    return new Promise((resolve) => {
      this.readers.set(token, resolve);
      signal?.addEventListener('abort', () => resolve({ is: 'lost' }));
    });
  }

  /** It cannot say any more whether the execution did its work, and tells its reader. */
  forget(token: string): void {
    const end = { is: 'forgotten', why: 'the provider has not told' } as const;
    this.executions.set(token, end);
    this.readers.get(token)?.(end);
  }

  async kill(token: string, _: unknown, how: KillHow = 'end'): Promise<KillReply> {
    const status = this.executions.get(token);
    if (!status) return { is: 'tombstoned', registry: 'first', rememberedSince: 0 };
    if (how === 'bury') return status;
    this.killed.push(token);
    this.executions.delete(token);
    return { is: 'ended', outcome: { ok: 'cancelled' } };
  }

  async ack(token: string): Promise<void> {
    this.acked.push(token);
    this.executions.delete(token);
  }
}

type Brain = Awaited<ReturnType<typeof createOrchestrator>>;

class Site {
  readonly time = new VirtualEnv();
  readonly executor = new Executor(() => this.time.now);
  readonly #data: string;
  readonly #t: TestContext;

  constructor(t: TestContext) {
    this.#t = t;
    const root = mkdtempSync(join(tmpdir(), 'orchd-reconcile-'));
    t.after(() => rmSync(root, { recursive: true }));
    this.#data = join(root, 'data');
  }

  async start(config = ''): Promise<Brain> {
    const env = this.time.env();
    const options = { data: this.#data, backends: [this.executor], env, config };
    const brain = await this.time.until(createOrchestrator(options));
    this.#t.after(() => this.stop(brain));
    return brain;
  }

  async stop(brain: Brain): Promise<void> {
    await this.time.until(brain.stop());
  }

  /** Submits jobs, and returns once they run. */
  async run(brain: Brain, jobs: Readonly<Record<string, object>>): Promise<void> {
    for (const [id, fields] of Object.entries(jobs))
      await this.time.until(brain.submit({ job_id: id, type: 't', payload: 1, ...fields }));
    while ((await this.states(brain, ...Object.keys(jobs))).some((state) => state !== 'running'))
      await this.time.pass(10);
  }

  /** Lets time pass until the condition is met. */
  async until(isMet: () => boolean): Promise<void> {
    while (!isMet()) await this.time.pass(10);
  }

  states(brain: Brain, ...ids: string[]): Promise<string[]> {
    return Promise.all(ids.map(async (id) => (await this.time.until(brain.get(id))).state));
  }
}

test('[FANO-9] at the start each open attempt is re-attached, collected, held, retried or given back, and the report names it', async (t) => {
  const site = new Site(t);
  const first = await site.start();
  await site.run(first, {
    runs: {},
    ended: {},
    held: { on_unknown: 'hold' },
    again: { on_unknown: 'retry', max_tries: 2 },
    failed: { on_unknown: 'fail' },
  });
  await site.stop(first);
  const { executions } = site.executor;
  executions.set('ended:1', DONE);
  for (const token of ['held:1', 'again:1', 'failed:1']) executions.delete(token);

  const second = await site.start();
  await site.until(() => second.reconciliation.reports[0]?.backends.length === 1);
  const [report] = second.reconciliation.reports;
  assert.deepEqual([report?.trigger, report?.unanswered, report?.backends.length], ['start', 0, 1]);
  const { counts, attempts, unknown_running } = report?.backends[0] ?? {};
  assert.deepEqual(counts, { reattached: 1, collected: 1, held: 1, retried: 1, failed: 1 });
  assert.equal(unknown_running, 0);
  assert.deepEqual(Object.fromEntries(attempts?.map(({ token, found }) => [token, found]) ?? []), {
    'runs:1': 'reattached',
    'ended:1': 'collected',
    'held:1': 'held',
    'again:1': 'retried',
    'failed:1': 'failed',
  });
  assert.deepEqual(await site.states(second, 'runs', 'ended', 'held', 'failed'), [
    'running',
    'succeeded',
    'stale',
    'dead',
  ]);
  await site.until(() => engineOf(second).state.brain?.reconciled !== undefined);
  assert.deepEqual(engineOf(second).state.brain?.reconciled?.counts, counts, 'it is in the audit trail');
});

test('[FANO-9] an attempt that is given up later is named too, whether it was found before or is of this start', async (t) => {
  const site = new Site(t);
  const { executor } = site;
  const first = await site.start();
  await site.run(first, {
    again: { on_unknown: 'retry', max_tries: 2 },
    held: { on_unknown: 'hold' },
    failed: { on_unknown: 'fail' },
  });
  await site.stop(first);
  const second = await site.start();
  await site.until(() => second.reconciliation.reports[0]?.backends[0]?.counts['reattached'] === 3);
  await site.run(second, { new: { on_unknown: 'retry', max_tries: 2 } });
  for (const id of ['again', 'held', 'failed', 'new']) executor.forget(`${id}:1`);
  await site.until(() => executor.executions.has('again:2') && executor.executions.has('new:2'));
  assert.deepEqual(await site.states(second, 'held', 'failed'), ['stale', 'dead']);
  await site.time.pass(20_000);
  const [report, ...others] = second.reconciliation.reports;
  assert.deepEqual([report?.trigger, report?.backends.length, others], ['start', 1, []]);
  const { counts, attempts } = report?.backends[0] ?? {};
  assert.deepEqual(counts, { reattached: 3, retried: 2, held: 1, failed: 1 });
  const later = attempts?.filter(({ found }) => found !== 'reattached') ?? [];
  assert.deepEqual(Object.fromEntries(later.map(({ token, found }) => [token, found])), {
    'again:1': 'retried',
    'held:1': 'held',
    'failed:1': 'failed',
    'new:1': 'retried',
  });
});

test('[FANO-9] [FANO-11] an execution that no attempt knows is ended after the grace time, a lost acknowledgement is sent again', async (t) => {
  const site = new Site(t);
  const { executions, killed, acked } = site.executor;
  executions.set('unknown:1', { is: 'running' });
  executions.set('over:1', DONE);
  const brain = await site.start();
  await site.time.pass(9000);
  assert.deepEqual([killed, acked], [[], ['over:1']]);
  assert.equal(brain.reconciliation.reports[0]?.backends[0]?.unknown_running, 1);
  await site.until(() => killed.length > 0);
  await site.until(() => brain.reconciliation.reports[0]?.backends[0]?.counts['killed'] !== undefined);
  assert.deepEqual(killed, ['unknown:1']);
  assert.deepEqual(brain.reconciliation.reports[0]?.backends[0]?.counts, { killed: 1 });
});

test('an execution that ends, or is known, before the second look is left alone', async (t) => {
  const site = new Site(t);
  const { executions, killed } = site.executor;
  executions.set('ends:1', { is: 'running' });
  executions.set('comes:1', { is: 'running' });
  const brain = await site.start();
  await site.time.pass(1000);
  executions.set('ends:1', DONE);
  await site.run(brain, { comes: {} });
  await site.time.pass(20_000);
  assert.deepEqual([killed, await site.states(brain, 'comes')], [[], ['running']]);
});

test('[FANO-11] [FANO-12] switched off, nothing is ended and nothing reported at the start, and open attempts are still settled', async (t) => {
  const site = new Site(t);
  const config = 'orchestrator: { recovery: { orphan_reconciliation: false } }';
  const first = await site.start(config);
  await site.run(first, { ended: {} });
  await site.stop(first);
  site.executor.executions.set('ended:1', DONE);
  site.executor.executions.set('unknown:1', { is: 'running' });
  const second = await site.start(config);
  // The commits of both jobs are real and take real time: a comparison at the start would be over when they are.
  await site.run(second, { later: {} });
  while ((await site.states(second, 'ended'))[0] !== 'succeeded') await site.time.pass(10);
  await site.time.pass(30_000);
  assert.deepEqual([site.executor.killed, second.reconciliation.reports], [[], []]);
  const report = await site.time.until(second.reconciliation.run('anna'));
  assert.deepEqual([report.by, report.backends[0]?.unknown_running], ['anna', 1]);
  await site.until(() => site.executor.killed.length > 0);
  assert.deepEqual(site.executor.killed, ['unknown:1']);
});

test('by order everything is compared again, also what is held; a silent backend is named', async (t) => {
  const site = new Site(t);
  const brain = await site.start();
  await site.run(brain, { runs: {}, ends: {} });
  site.executor.executions.set('ends:1', DONE);
  const report = await site.time.until(brain.reconciliation.run('anna'));
  assert.deepEqual(report.backends[0]?.counts, { running: 1, collected: 1 });
  site.executor.silent = true;
  const other = await site.time.until(brain.reconciliation.run('bert'));
  assert.deepEqual([other.backends[0]?.answered, other.backends[0]?.backend], [false, 'exec']);
  assert.deepEqual(
    brain.reconciliation.reports.map(({ by }) => by),
    [undefined, 'anna', 'bert'],
  );
});

for (const wrongByMs of [-3_600_000, 3_600_000]) {
  for (const [sinceMs, found] of [
    [-1000, 'not_run'],
    [60_000, 'held'],
  ] as const) {
    test(`an executor whose clock is wrong by ${wrongByMs} ms remembers since ${sinceMs} ms after the attempt: ${found}`, async (t) => {
      const site = new Site(t);
      site.executor.wrongByMs = wrongByMs;
      const first = await site.start();
      // Neither the offer nor its answer arrives.
      site.executor.offer = () => new Promise(() => undefined);
      await site.time.until(first.submit({ job_id: 'a', type: 't', payload: 1 }));
      await site.until(() => engineOf(first).state.open.size === 1);
      // Not from now: much time passes on this clock while a slow disk commits.
      const [entry] = engineOf(first).state.open.values();
      site.executor.since = (entry?.open?.at ?? 0) + sinceMs;
      await site.stop(first);
      site.executor.offer = async () => ({ is: 'busy', retryAfterMs: 3_600_000 });
      const second = await site.start();
      await site.until(() => second.reconciliation.reports[0]?.backends.length === 1);
      assert.deepEqual(second.reconciliation.reports[0]?.backends[0]?.counts, { [found]: 1 });
    });
  }
}

for (const [answer, counts] of [
  ['tombstoned', { not_run: 1 }],
  ['running', { reattached: 1 }],
  ['forgotten', { retried: 1 }],
] as const) {
  test(`an offer that may still arrive is killed before its job runs again, and the report names what was found: ${answer}`, async (t) => {
    const site = new Site(t);
    const { executor } = site;
    const first = await site.start();
    executor.offer = () => new Promise(() => undefined);
    const job = { job_id: 'a', type: 't', payload: 1, on_unknown: 'retry', max_tries: 2 } as const;
    await site.time.until(first.submit(job));
    await site.until(() => engineOf(first).state.open.size === 1);
    const [entry] = engineOf(first).state.open.values();
    const at = entry?.open?.at ?? 0;
    await site.stop(first);
    // Its answer was on its way for a minute: by then it is not certain that its memory reaches back to the attempt.
    executor.since = at + 60_000;
    const offered: string[] = [];
    executor.offer = async ({ token }) => {
      offered.push(token);
      return { is: 'accepted' };
    };
    const killed: unknown[] = [];
    executor.kill = async (token, _, how) => {
      killed.push([token, how, [...offered]]);
      if (answer === 'running') return { is: 'running' };
      const rememberedSince = answer === 'tombstoned' ? at : at + 60_000;
      return { is: 'tombstoned', registry: 'first', rememberedSince };
    };
    const second = await site.start();
    const started = (): object | undefined => second.reconciliation.reports[0]?.backends[0]?.counts;
    await site.until(() => Object.keys(started() ?? {}).length > 0);
    assert.deepEqual(started(), counts);
    assert.deepEqual(killed, [['a:1', 'bury', []]]);
    if (answer !== 'running') await site.until(() => offered.length > 0);
    assert.deepEqual(offered, answer === 'running' ? [] : ['a:2']);
  });
}

test('a held attempt frees its slot if its executor ends with its process, and has another memory now', async (t) => {
  for (const [endsWithProcess, used] of [
    [true, 0],
    [false, 1],
  ] as const) {
    const site = new Site(t);
    site.executor.info = { ...site.executor.info, endsWithProcess };
    const first = await site.start();
    await site.run(first, { held: {} });
    await site.stop(first);
    site.executor.executions.clear();
    site.executor.info = { ...site.executor.info, registry: 'second' };
    const second = await site.start();
    await site.until(() => second.reconciliation.reports[0]?.backends[0]?.counts['held'] === 1);
    assert.equal(engineOf(second).queue.fleet.usedSlots('exec'), used);
    await site.stop(second);
  }
});
