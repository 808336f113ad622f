import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EngineKit, SETTINGS, START, SUCCESS } from '../../../test/fakes/engine-kit.ts';
import type { ConsumerDeclaration } from '../../model/consumer-record.ts';
import { errorInfo, OrchdError } from '../../model/errors.ts';
import { DEFAULT_POLICY, type Mode } from '../../model/governance.ts';
import type { EngineEvent, ValueOf } from '../engine/areas.ts';
import { due } from '../engine/due.ts';
import { Engine } from '../engine/engine.ts';
import { explain } from '../scheduling/explain.ts';
import type { EngineSettings } from '../settings.ts';
import type { ConsumerOutcome } from './claims.ts';

const TTL_MS = 15_000;
const BACKEND = 'consumers/p';

/** An engine with consumers, whose secrets are their names. */
class ConsumerKit extends EngineKit {
  #claims = 0;

  ask<T extends 'consumer' | 'claim' | 'held' | 'results' | 'consumer-left'>(
    event: Extract<EngineEvent, { type: T }>,
  ): ValueOf<T> {
    const { reply } = this.step(event);
    if (reply instanceof OrchdError) throw reply;
    return reply as ValueOf<T>;
  }

  register(name: string, fields: Partial<ConsumerDeclaration> = {}): void {
    const declared: ConsumerDeclaration = {
      pool: 'p',
      name,
      token: name,
      slots: 2,
      types: ['t'],
      models: undefined,
      labels: {},
      paid: false,
      listens: undefined,
      ttlMs: TTL_MS,
      ...fields,
    };
    this.ask({ type: 'consumer', declared });
  }

  claim(consumer: string, atMost = 10, claim = ++this.#claims, tokens?: readonly string[]): string[] {
    const { attempts } = this.ask({ type: 'claim', consumer, claim, atMost, tokens });
    return attempts.map(({ uid }) => uid);
  }

  held(consumer: string, held: readonly string[], claimed = this.#claims) {
    const { lost, stop } = this.ask({ type: 'held', consumer, held, claimed });
    return { lost, stop: stop.map(({ uid }) => uid) };
  }

  report(consumer: string, token: string, outcome: ConsumerOutcome = SUCCESS): true | string {
    const [answer] = this.ask({ type: 'results', consumer, results: [{ token, outcome }] });
    return answer instanceof OrchdError ? answer.code : (answer as true);
  }

  published(): string[] {
    return due(this.engine).flatMap(({ kind, token }) => (kind === 'publish' ? [token] : []));
  }

  /** Another brain on the same records. */
  reopened(settings: Partial<EngineSettings> = {}): ConsumerKit {
    const engine = new Engine({ settings: { ...SETTINGS, ...settings }, random: () => 0 });
    for (const { change, at } of this.log) engine.state.apply(JSON.parse(JSON.stringify(change)), at);
    const kit = new ConsumerKit({}, () => 0, engine);
    kit.now = this.now;
    kit.step({ type: 'open', owner: 'kit' });
    return kit;
  }
}

const consumerKit = (...names: readonly string[]): ConsumerKit => {
  const kit = new ConsumerKit();
  for (const name of names) kit.register(name);
  return kit;
};

const code = (expected: string, reason?: string) => (error: unknown) =>
  error instanceof OrchdError && error.code === expected && error.details.reason === reason;

test('an attempt waits to be claimed, and only a claim makes it run', () => {
  const kit = consumerKit('ann');
  kit.submit('a');
  assert.equal(kit.state('a'), 'claimed');
  assert.deepEqual(kit.published(), ['a:1']);
  assert.deepEqual(kit.claim('ann'), ['a']);
  assert.equal(kit.state('a'), 'running');
  assert.equal(kit.job('a').open?.holder?.consumer, 'p/ann');
  assert.deepEqual(kit.published(), []);
  assert.equal(kit.report('ann', 'a:1'), true);
  assert.equal(kit.state('a'), 'succeeded');
});

test('attempts are recorded for free slots alone, and a consumer holds no more than it has', () => {
  const kit = consumerKit('ann', 'bob');
  for (const id of ['a', 'b', 'c', 'd', 'e']) kit.submit(id);
  assert.equal(kit.published().length, 4);
  assert.equal(kit.claim('ann').length, 2);
  assert.deepEqual(kit.claim('ann'), []);
  assert.equal(kit.claim('bob', 1).length, 1);
  assert.equal(kit.state('e'), 'queued');
});

test('an attempt is claimed once, whoever asks for its token', () => {
  const kit = consumerKit('ann', 'bob');
  kit.submit('a');
  assert.deepEqual(kit.claim('ann', 1, 1, ['a:1', 'a:1', 'other:7']), ['a']);
  assert.deepEqual(kit.claim('bob', 1, 1, ['a:1']), []);
});

test('a consumer that lost the answer to its claim gets the same jobs by the same number', () => {
  const kit = consumerKit('ann');
  kit.submit('a');
  assert.deepEqual(kit.claim('ann', 1, 7), ['a']);
  kit.submit('b');
  assert.deepEqual(kit.claim('ann', 1, 7), ['a']);
  assert.deepEqual(kit.claim('ann', 1, 8), ['b']);
});

test('what a consumer has claimed and does not know of goes back to the queue, with no try used up', () => {
  const kit = consumerKit('ann');
  kit.submit('a');
  kit.claim('ann', 1, 1);
  // The answer to the claim may still be under way.
  kit.held('ann', [], 0);
  assert.equal(kit.state('a'), 'running');
  kit.held('ann', [], 1);
  assert.equal(kit.job('a').job.tries, 0);
  assert.deepEqual(kit.published(), ['a:2']);
});

test('a job that a consumer gives back unbegun goes to another one, with no try used up', () => {
  const kit = consumerKit('ann', 'bob');
  kit.submit('a');
  kit.claim('ann');
  assert.equal(kit.report('ann', 'a:1', { ok: 'returned' }), true);
  assert.equal(kit.job('a').job.tries, 0);
  assert.deepEqual(kit.claim('bob'), ['a']);
});

test('a consumer that is silent for too long loses its jobs: they are tried again', () => {
  const kit = consumerKit('ann', 'bob');
  kit.submit('a');
  kit.claim('ann');
  kit.pass(TTL_MS - 1000);
  kit.held('bob', []);
  kit.pass(2000);
  assert.equal(kit.job('a').job.tries, 1);
  assert.equal(kit.engine.queue.fleet.backends.get(BACKEND)?.info.slots, 2);
  kit.held('bob', []);
  kit.pass(5000);
  assert.deepEqual(kit.claim('bob'), ['a']);
});

test('[NEWS-6] what silent consumers held is tried again after waits that double, less their jitter, and each attempt counts', () => {
  for (const [chance, waits] of [
    [0, [1000, 2000, 4000]],
    [0.5, [750, 1500, 3000]],
  ] as const) {
    const kit = new ConsumerKit(
      { backoff: { baseDelayMs: 1000, maxDelayMs: 60_000, jitter: 0.5 } },
      () => chance,
    );
    kit.register('keeper', { ttlMs: 10 * TTL_MS });
    kit.submit('a', { max_tries: 4 });
    for (const [at, wait] of [...waits, undefined].entries()) {
      const name = `silent-${at}`;
      kit.register(name, { ttlMs: 1000 });
      assert.deepEqual(kit.claim(name), ['a']);
      kit.pass(1000);
      const { tries, attempt, notBefore } = kit.job('a').job;
      assert.deepEqual([tries, attempt], [at + 1, at + 1]);
      if (wait === undefined) continue;
      assert.equal(notBefore, kit.now + wait);
      kit.pass(wait);
    }
    assert.equal(kit.state('a'), 'dead');
  }
});

test('a heartbeat keeps a consumer, and claims and results do too', () => {
  const kit = consumerKit('ann');
  for (let n = 0; n < 10; n++) {
    kit.pass(TTL_MS - 1000);
    if (n % 2 === 0) kit.held('ann', []);
    else kit.claim('ann');
  }
  assert.equal(kit.engine.queue.fleet.backends.get(BACKEND)?.info.slots, 2);
});

test('the result of a consumer that does not hold the attempt any more is refused, and leaves a note', () => {
  const kit = consumerKit('ann', 'bob');
  kit.submit('a');
  kit.claim('ann');
  for (let n = 0; n < 4; n++) {
    kit.pass(TTL_MS / 3);
    kit.held('bob', []);
  }
  kit.pass(2000);
  assert.deepEqual(kit.claim('bob'), ['a']);
  const before = kit.job('a').job;
  assert.equal(kit.report('ann', 'a:1'), 'FENCED');
  assert.equal(kit.job('a').job, before);
  assert.deepEqual(kit.engine.state.brain?.fenced, { token: 'a:1', consumer: 'p/ann', at: kit.now });
  assert.equal(kit.report('ann', 'a:2'), 'FENCED');
  assert.deepEqual(kit.held('ann', ['a:1']).lost, ['a:1']);
  assert.equal(kit.report('bob', 'a:2'), true);
});

test('a result that comes twice is recorded once, and answered alike', () => {
  const kit = consumerKit('ann', 'bob');
  kit.submit('a');
  kit.claim('ann');
  assert.equal(kit.report('ann', 'a:1'), true);
  const { length } = kit.log;
  assert.equal(kit.report('ann', 'a:1'), true);
  assert.equal(kit.log.length, length);
  assert.equal(kit.report('bob', 'a:1'), 'FENCED');
});

test('a held job of unknown outcome goes on with the consumer that was only silent', () => {
  const kit = consumerKit('ann');
  kit.submit('a', { on_unknown: 'hold' });
  kit.claim('ann');
  kit.pass(TTL_MS + 1000);
  assert.equal(kit.state('a'), 'stale');
  assert.deepEqual(kit.held('ann', ['a:1']), { lost: [], stop: [] });
  assert.equal(kit.state('a'), 'running');
  assert.equal(kit.report('ann', 'a:1'), true);
});

const UNKNOWN = {
  ok: 'unknown',
  finding: { is: 'forgotten', isGone: true, error: errorInfo('UNKNOWN_OUTCOME', 'nobody has seen its end') },
} as const;

test('what a consumer cannot say about is tried again where that is free', () => {
  const kit = consumerKit('ann');
  kit.submit('a');
  kit.claim('ann');
  assert.equal(kit.report('ann', 'a:1', UNKNOWN), true);
  kit.pass(5000);
  assert.deepEqual([kit.job('a').job.tries, kit.claim('ann')], [1, ['a']]);
  assert.equal(kit.job('a').past?.[0]?.error?.message, 'nobody has seen its end');
});

test('what a consumer cannot say about is held where the job says so: it takes no slot, and nobody takes it for one that has not run', () => {
  const kit = consumerKit();
  kit.register('ann', { slots: 1 });
  for (const id of ['a', 'b']) kit.submit(id, { on_unknown: 'hold' });
  kit.claim('ann');
  assert.equal(kit.report('ann', 'a:1', UNKNOWN), true);
  kit.held('ann', []);
  assert.equal(kit.state('a'), 'stale');
  assert.equal(kit.report('ann', 'a:1'), 'FENCED');
  assert.deepEqual(kit.held('ann', ['a:1']).lost, ['a:1']);
  assert.deepEqual(kit.claim('ann'), ['b']);
  assert.equal(kit.reopened().state('a'), 'stale');
  kit.cancel('a');
  assert.deepEqual([kit.state('a'), kit.job('a').open], ['cancelled', undefined]);
});

test('a held job whose consumer has fallen silent ends at once when it is cancelled', () => {
  const kit = consumerKit('ann');
  kit.submit('a', { on_unknown: 'hold' });
  kit.claim('ann');
  kit.pass(TTL_MS + 1000);
  kit.cancel('a');
  assert.deepEqual([kit.state('a'), kit.job('a').open], ['cancelled', undefined]);
  assert.deepEqual(kit.held('ann', ['a:1']).lost, ['a:1']);
});

test('an order to end a job whose consumer then cannot say about it is carried out', () => {
  const kit = consumerKit('ann');
  kit.submit('a', { on_unknown: 'hold' });
  kit.claim('ann');
  kit.cancel('a');
  assert.equal(kit.report('ann', 'a:1', UNKNOWN), true);
  assert.deepEqual([kit.state('a'), kit.job('a').open], ['cancelled', undefined]);
});

test('what nobody has claimed goes back to the queue when the last consumer is gone', () => {
  const kit = consumerKit('ann');
  kit.submit('a');
  kit.ask({ type: 'consumer-left', consumer: 'ann' });
  assert.equal(kit.state('a'), 'queued');
  assert.equal(kit.job('a').job.tries, 0);
  assert.equal(kit.engine.queue.fleet.backends.has(BACKEND), false);
  kit.register('bob');
  assert.deepEqual(kit.claim('bob'), ['a']);
});

test('a cancelled job that nobody has claimed ends at once, and cannot be claimed', () => {
  const kit = consumerKit('ann');
  kit.submit('a');
  kit.cancel('a');
  assert.equal(kit.state('a'), 'cancelled');
  assert.deepEqual(kit.claim('ann', 1, 1, ['a:1']), []);
});

test('the holder of a cancelled job is told to stop it, and its slot is taken until it has', () => {
  const kit = consumerKit('ann');
  kit.submit('a');
  kit.claim('ann');
  kit.cancel('a');
  assert.deepEqual(kit.held('ann', ['a:1']).stop, ['a']);
  assert.equal(kit.engine.queue.fleet.usedSlots(BACKEND), 1);
  kit.report('ann', 'a:1', { ok: 'cancelled' });
  assert.equal(kit.state('a'), 'cancelled');
  assert.equal(kit.engine.queue.fleet.usedSlots(BACKEND), 0);
});

test('consumers of a pool declare the same, and no two have one name', () => {
  const kit = consumerKit('ann');
  assert.throws(() => kit.register('bob', { types: ['t', 'u'] }), code('CONSUMER_CONFLICT', 'pool_differs'));
  assert.throws(() => kit.register('ann', { token: 'other' }), code('CONSUMER_CONFLICT', 'name_taken'));
  kit.register('ann');
  kit.submit('a');
  kit.claim('ann');
  kit.pass(TTL_MS + 1);
  kit.register('ann', { token: 'other', types: ['t', 'u'] });
  assert.throws(() => kit.held('ann', ['a:1']), code('CONSUMER_GONE'));
});

test('a process of the same name does not hold what its predecessor held', () => {
  const kit = consumerKit('ann');
  kit.submit('a', { on_unknown: 'hold' });
  kit.claim('ann');
  kit.pass(TTL_MS + 1);
  kit.register('ann', { token: 'second' });
  assert.deepEqual(kit.held('second', ['a:1']).lost, ['a:1']);
  assert.equal(kit.report('second', 'a:1'), 'FENCED');
});

test('in LOCKDOWN nobody claims what waited before it, and what is held goes on; afterwards it is claimed', () => {
  const setMode = (kit: ConsumerKit, mode: Mode): void =>
    void kit.step({ type: 'mode', order: { mode, by: 'ann', why: 'a test', isPerson: true } });
  const kit = consumerKit('ann');
  for (const id of ['a', 'b']) kit.submit(id);
  assert.deepEqual(kit.claim('ann', 1), ['a']);
  setMode(kit, 'LOCKDOWN');
  assert.deepEqual([kit.state('b'), kit.published(), kit.claim('ann')], ['queued', [], []]);
  assert.deepEqual(kit.claim('ann', 1, undefined, ['b:1']), [], 'nor by the token that was published');
  assert.equal(kit.report('ann', 'a:1'), true);
  setMode(kit, 'RECOVERY');
  setMode(kit, 'NORMAL');
  assert.deepEqual(kit.claim('ann'), ['b']);
  assert.equal(kit.token('b'), 'b:3', 'an attempt for each mode in which it could start');
});

test('[ADR-7] what nobody has claimed when rules come that forbid it is denied by the next brain, and the rest is claimed', () => {
  const before = new ConsumerKit();
  before.register('a', { types: ['t', 'u'] });
  for (const id of ['j1', 'j2']) before.submit(id, { type: id === 'j1' ? 't' : 'u' });
  const rules = [{ name: 'no-u', effect: 'deny', types: ['u'], reason: 'too dear' }] as const;
  const kit = before.reopened({ governance: { ...DEFAULT_POLICY, rules } });
  assert.equal(kit.state('j2'), 'dead');
  assert.equal(kit.job('j2').job.error?.code, 'GOVERNANCE_DENIED');
  assert.match(kit.job('j2').job.error?.message ?? '', /"no-u" forbids it: too dear/);
  assert.deepEqual(kit.claim('a'), ['j1']);
});

test('[ADR-7] what nobody has claimed waits with its reason when the next brain lets none of its kind start', () => {
  for (const none of [{ running: { others: 0 } }, { perMinute: { others: 0 } }]) {
    const before = consumerKit('a');
    before.submit('j');
    const modes = { ...DEFAULT_POLICY.modes, NORMAL: none };
    const kit = before.reopened({ governance: { ...DEFAULT_POLICY, modes } });
    assert.equal(kit.state('j'), 'queued');
    assert.equal(explain(kit.engine.state, kit.job('j'))?.code, 'governance');
    assert.deepEqual(kit.claim('a'), []);
  }
});

test('[ADR-7] a claim passes the gate: what became forbidden since it was recorded is denied, and not handed out', () => {
  const rules = [{ name: 'no-big', effect: 'deny', models: ['big'] }] as const;
  const kit = new ConsumerKit({ governance: { ...DEFAULT_POLICY, rules } });
  kit.register('a', { types: ['inference'], models: ['m'] });
  for (const id of ['j1', 'j2']) kit.submit(id, { type: 'inference', model: 'm' });
  assert.deepEqual([kit.state('j1'), kit.state('j2')], ['claimed', 'claimed']);
  const sizes = { sizeBytes: 1, vramBytes: 1, vramGuessed: undefined, contextLength: 1, slots: undefined };
  const file = { ref: 'file:m.gguf', sha256: undefined, signature: undefined, publicKey: undefined };
  const model = { id: 'm', name: 'm', aliases: ['big'], ...sizes, ...file };
  kit.step({ type: 'register', model });
  assert.deepEqual(kit.claim('a'), []);
  for (const id of ['j1', 'j2']) assert.equal(kit.job(id).job.error?.code, 'GOVERNANCE_DENIED');
});

test('a job of unknown outcome that a former process of the name holds takes no slot of the new one', () => {
  const kit = consumerKit('ann');
  kit.submit('a', { on_unknown: 'hold' });
  kit.claim('ann');
  kit.pass(TTL_MS + 1);
  kit.register('ann', { token: 'second', slots: 1 });
  kit.submit('b');
  assert.deepEqual(kit.claim('second'), ['b']);
});

test('another brain knows who holds what, and gives everybody their full time again', () => {
  const kit = consumerKit('ann', 'bob');
  for (const id of ['a', 'b', 'c']) kit.submit(id);
  kit.claim('ann', 1);
  kit.pass(TTL_MS - 1000);
  const next = kit.reopened();
  assert.deepEqual(
    due(next.engine).map(({ kind, token }) => `${kind} ${token}`),
    ['publish b:1', 'publish c:1'],
  );
  next.pass(TTL_MS - 1000);
  assert.deepEqual(next.held('ann', ['a:1']), { lost: [], stop: [] });
  assert.equal(next.report('ann', 'a:1'), true);
  assert.equal(next.engine.queue.fleet.backends.get(BACKEND)?.info.slots, 4);
  assert.ok(next.now > START);
});

test('a brain that stops hands out no more jobs, and sends no consumer away', () => {
  const kit = consumerKit('ann');
  kit.submit('a');
  kit.step({ type: 'pause' });
  const { attempts, isDraining } = kit.ask({ type: 'claim', consumer: 'ann', claim: 1, atMost: 1 });
  assert.deepEqual([attempts.length, isDraining], [0, false]);
});

test('a consumer that drains finishes what it holds, and gets nothing new', () => {
  const kit = consumerKit('ann');
  for (const id of ['a', 'b']) kit.submit(id);
  kit.claim('ann', 1);
  kit.step({ type: 'drain-consumer', id: 'p/ann', by: 'bob' });
  const claimed = kit.ask({ type: 'claim', consumer: 'ann', claim: 9, atMost: 1 });
  assert.deepEqual([claimed.attempts.length, claimed.isDraining], [0, true]);
  assert.equal(
    kit.ask({ type: 'held', consumer: 'ann', held: ['a:1'], claimed: 9 }).consumer.state,
    'draining',
  );
  assert.equal(kit.report('ann', 'a:1'), true);
});

test('a limit of a worker pool holds for the consumers that a program outside starts for it', () => {
  const kit = new ConsumerKit({ limits: [{ scope: 'pool:p', running: 2 }] });
  const spec = {
    agent: undefined,
    model: undefined,
    adapter: undefined,
    variant: undefined,
    metadata: undefined,
  };
  const all = { ...spec, provisioner: 'external', desired: 2, holdMs: 0 } as const;
  kit.step({ type: 'worker-pool', id: 'p', order: { is: 'create', spec: all }, by: 'op' });
  kit.register('ann', { slots: 5 });
  for (const id of ['a', 'b', 'c']) kit.submit(id);
  assert.deepEqual(kit.published(), ['a:1', 'b:1']);
  const why = explain(kit.engine.state, kit.job('c'));
  assert.equal(why?.text, '"pool:p" runs as many jobs as it may: 2');
});

test('a limit of a pool holds for its consumers together, and a freed place goes to the next job', () => {
  const kit = new ConsumerKit({ limits: [{ scope: 'pool:consumers/p', running: 3 }] });
  for (const name of ['ann', 'bob']) kit.register(name);
  kit.register('zoe', { pool: 'other', types: ['u'] });
  for (const id of ['a', 'b', 'c', 'd']) kit.submit(id);
  for (const id of ['x', 'y']) kit.submit(id, { type: 'u' });
  assert.deepEqual(kit.published(), ['a:1', 'b:1', 'c:1', 'x:1', 'y:1'], 'the other pool is not limited');
  const why = explain(kit.engine.state, kit.job('d'));
  assert.deepEqual(why, { code: 'quota', text: '"pool:consumers/p" runs as many jobs as it may: 3' });
  assert.deepEqual(kit.claim('ann'), ['a', 'b']);
  kit.report('ann', 'b:1');
  assert.deepEqual(kit.published(), ['c:1', 'x:1', 'y:1', 'd:1']);
});
