/**
 * Random walks of an engine with budgets and limits of running jobs, and a model beside it that counts what runs, is
 * reserved and is settled in each scope from the records of attempts alone.
 */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { windowAt } from '../../src/kit/window.ts';
import type { LimitSpec } from '../../src/model/limit-records.ts';
import type { AskRecord, AttemptRecord } from '../../src/model/records.ts';
import { isOpen, isTerminal, usesSlot } from '../../src/model/states.ts';
import { FAILED_FOR_NOW, SUCCESS, TURNED_AWAY } from './engine-kit.ts';
import { cost, MoneyKit } from './money-kit.ts';

const KINDS = [
  ...Array<'submit'>(8).fill('submit'),
  ...Array<'accept'>(6).fill('accept'),
  ...Array<'end'>(6).fill('end'),
  'lose',
  'forget',
  'resolve',
  'cancel',
  'redrive',
  'limits',
  'pass',
  'hour',
  'restart',
] as const;

export interface MoneyCommand {
  readonly kind: (typeof KINDS)[number];
  readonly pick: number;
  readonly variant: number;
}

export const moneyCommands = (maxLength: number): fc.Arbitrary<MoneyCommand[]> =>
  fc.array(
    fc.record({
      kind: fc.constantFrom(...KINDS),
      pick: fc.nat({ max: 1000 }),
      variant: fc.nat({ max: 1000 }),
    }),
    { minLength: 1, maxLength, size: 'max' },
  );

const at = <T>(items: readonly T[], pick: number): T => items[pick % items.length] as T;

const HARD = { hard: true } as const;

/** Each walk has some of these at a time. */
const LIMITS: readonly LimitSpec[] = [
  { scope: 'global', running: 4 },
  { scope: 'tenant:default', running: 2, costBudget: 100, window: 'hour', ...HARD },
  { scope: 'agent:*', running: 1 },
  { scope: 'agent:default/p1', running: 2, costBudget: 60, window: 'hour', ...HARD },
  { scope: 'token:default/k1', running: 1 },
  { scope: 'token:*', running: 3, costBudget: 150, window: 'hour', ...HARD },
  { scope: 'root:*', costBudget: 45, ...HARD },
  { scope: 'session:*', running: 1 },
  { scope: 'seat:b1', running: 1, costBudget: 80, window: 'hour', ...HARD },
  { scope: 'model:m', running: 1 },
  { scope: 'global', costBudget: 200, window: 'hour', ...HARD },
  { scope: 'agent:default/p2', running: 0 },
];

/** Some limits, of each scope one at most. */
export function someLimits(bits: number): LimitSpec[] {
  const byScope = new Map<string, LimitSpec>();
  for (const [n, limit] of LIMITS.entries()) if ((bits >> n) & 1) byScope.set(limit.scope, limit);
  return [...byScope.values()];
}

function scopesOf({ tenant, spec, submittedBy, ancestors, id }: AskRecord, backend: string): string[] {
  const token = tenant === 'default' && !submittedBy.includes('/') ? submittedBy : `${tenant}/${submittedBy}`;
  const named = ['global', `tenant:${tenant}`, `agent:${tenant}/${spec.agent}`, `token:${token}`];
  named.push(`root:${tenant}/${ancestors?.[0] ?? id}`, `seat:${backend}`);
  if (spec.session_id !== undefined) named.push(`session:${tenant}/${spec.session_id}`);
  if (spec.model !== undefined) named.push(`model:${spec.model}`);
  return named;
}

/** Counts every attempt of the walk by its newest record. */
export class MoneyModel {
  readonly #attempts = new Map<string, { record: AttemptRecord; ask: AskRecord }>();
  readonly #asks = new Map<string, AskRecord>();
  #seen = 0;

  /** Attempts so far. */
  get starts(): number {
    return this.#attempts.size;
  }

  follow(kit: MoneyKit, onClaim: (ask: AskRecord, backend: string) => void): void {
    for (; this.#seen < kit.log.length; this.#seen++) {
      const { change } = kit.log[this.#seen] as (typeof kit.log)[number];
      if (change.kind === 'ask' && change.after) this.#asks.set(change.id, change.after);
      if (change.kind !== 'attempt' || !change.after) continue;
      const isNew = !this.#attempts.has(change.id);
      const ask = this.#asks.get(change.after.job) as AskRecord;
      this.#attempts.set(change.id, { record: change.after, ask });
      if (isNew) onClaim(ask, change.after.backend);
    }
  }

  /** Goes on with another brain on the same records. */
  restarted(): void {
    this.#seen = 0;
  }

  /** [running, reserved, settled] of a scope; what is settled counts from `since` on. */
  used(scope: string, since: number): [number, number, number] {
    let [running, reserved, settled] = [0, 0, 0];
    for (const { record, ask } of this.#attempts.values()) {
      if (!scopesOf(ask, record.backend).includes(scope)) continue;
      if (usesSlot(record)) running++;
      if (isOpen(record.state)) reserved += record.bill?.reserved ?? 0;
      else if ((record.endedAt ?? 0) >= since) settled += record.bill?.cost ?? 0;
    }
    return [running, reserved, settled];
  }
}

/** The most specific of the limits for a scope. */
function limitOf(limits: readonly LimitSpec[], scope: string): LimitSpec | undefined {
  const kind = scope.slice(0, scope.indexOf(':'));
  return limits.find((each) => each.scope === scope) ?? limits.find((each) => each.scope === `${kind}:*`);
}

export class MoneyWalk {
  kit: MoneyKit;
  limits: readonly LimitSpec[];
  readonly model = new MoneyModel();
  #jobs = 0;
  /** Limits have been replaced. */
  #isChanged = false;

  constructor(bits: number) {
    this.limits = someLimits(bits);
    const backoff = { baseDelayMs: 10, maxDelayMs: 40, jitter: 0 };
    this.kit = new MoneyKit(this.limits, { backoff, breaker: { failures: 0, pauseMs: 1, maxPauseMs: 1 } });
    this.kit.backend('b1', { slots: 3, types: ['t'], models: ['m'], paid: true, hasProvider: true });
    this.kit.backend('b2', { slots: 2, types: ['t', 'u'], models: ['m'], paid: true });
    this.check();
  }

  do({ kind, pick, variant }: MoneyCommand): void {
    const { kit } = this;
    const { state } = kit.engine;
    const open = [...state.open.values()];
    const uid = (open.length > 0 ? at(open, pick) : undefined)?.uid;
    if (kind === 'submit') this.#submit(pick, variant);
    else if (kind === 'pass') kit.pass(variant % 50);
    else if (kind === 'hour') kit.pass(1_000_000 + variant * 3000);
    else if (kind === 'limits') {
      this.#isChanged = true;
      this.limits = someLimits(pick * 7 + variant);
      kit.setLimits(...this.limits);
    } else if (kind === 'restart') this.#restart();
    else if (kind === 'redrive') this.#redrive(pick);
    else if (uid !== undefined) this.#attempt(kind, uid, variant);
    this.check();
  }

  #attempt(kind: MoneyCommand['kind'], uid: string, variant: number): void {
    const { kit } = this;
    const { open, job, token, ask } = kit.job(uid);
    const most = ask.maxOutput ?? 0;
    if (kind === 'accept') kit.step({ type: 'offered', token, answer: { is: 'accepted' } });
    else if (kind === 'lose') kit.step({ type: 'lost', token });
    else if (kind === 'forget') kit.step({ type: 'found', token, finding: { is: 'forgotten' } });
    else if (kind === 'cancel') kit.cancel(uid);
    else if (kind === 'resolve' && job.state === 'stale') {
      const how = at([{ as: 'retry' }, { as: 'failed' }, { as: 'succeeded', result: '1' }] as const, variant);
      kit.step({ type: 'resolve', uid, by: 'walk', how });
    } else if (kind === 'end') {
      const used = variant % (most + 1);
      const ends = [
        cost.success(used),
        cost.failure(used),
        cost.failure(used, true),
        cost.cancelled(used),
        SUCCESS,
        FAILED_FOR_NOW,
        TURNED_AWAY,
      ];
      if (open) kit.step({ type: 'outcome', token, outcome: at(ends, variant) });
    }
  }

  #submit(pick: number, variant: number): void {
    const live = [...this.kit.engine.state.jobs.values()].filter(({ job }) => !isTerminal(job.state));
    const parent = variant % 3 === 0 && live.length > 0 ? at(live, pick).ask.id : undefined;
    this.kit.trySubmit(`j${this.#jobs++}`, {
      maxOutput: 1 + (variant % 40),
      agent: `p${pick % 4}`,
      submittedBy: `k${variant % 3}`,
      type: at(['t', 't', 'u'], variant),
      ...(pick % 5 === 0 && { model: 'm' }),
      ...(pick % 7 === 0 && { session_id: `s${variant % 2}`, parallel: true as const }),
      ...(parent !== undefined && { parent_id: parent }),
      priority: at(['batch', 'batch', 'interactive'] as const, pick),
    });
  }

  #redrive(pick: number): void {
    const dead = [...this.kit.engine.state.jobs.values()].filter(({ job }) => job.state === 'dead');
    if (dead.length > 0) this.kit.redrive(at(dead, pick).uid);
  }

  #restart(): void {
    this.check();
    this.kit = this.kit.restarted();
    this.model.restarted();
  }

  /** Every attempt that has begun since the last call found room in all its scopes, and the engine counts as the model. */
  check(): void {
    const { kit, limits } = this;
    this.model.follow(kit, (ask, backend) => {
      for (const scope of scopesOf(ask, backend)) this.#checkClaim(scope, limitOf(limits, scope));
    });
    for (const { name } of kit.engine.queue.gates.values()) {
      const gate = kit.gate(name);
      const [running, reserved, settled] = this.#used(name, gate.limit);
      assert.deepEqual([gate.running, gate.reserved], [running, reserved], name);
      if (gate.limit.costBudget === undefined) continue;
      // What was used while the scope had no budget, or another window, is not known to it.
      if (this.#isChanged) assert.ok(gate.settled <= settled, `${name}: ${gate.settled} > ${settled}`);
      else assert.equal(gate.settled, settled, name);
    }
  }

  #used(scope: string, { window = 'total', timeZone = 'UTC' }: LimitSpec): [number, number, number] {
    const since = window === 'total' ? 0 : windowAt(window, timeZone, this.kit.now).start;
    return this.model.used(scope, since);
  }

  #checkClaim(scope: string, limit: LimitSpec | undefined): void {
    if (!limit) return;
    const [running] = this.#used(scope, limit);
    if (limit.running !== undefined) assert.ok(running <= limit.running, `${scope} runs ${running}`);
    if (!limit.hard) return;
    const { reserved, settled } = this.kit.gate(scope);
    assert.ok(reserved + settled <= (limit.costBudget ?? 0), `${scope} holds ${reserved} + ${settled}`);
  }

  /** Ends everything that is open, and lets time pass, until nothing waits any more. */
  drain(): void {
    this.limits = this.limits.map((limit) => (limit.running === 0 ? { ...limit, running: 1 } : limit));
    this.kit.setLimits(...this.limits);
    this.check();
    // The attempt of a job that was cancelled stays open until its executor has confirmed the end.
    const isLeft = (): boolean => this.#live.length > 0 || this.kit.engine.state.open.size > 0;
    for (let round = 0; round < 300 && isLeft(); round++) {
      for (const { token } of [...this.kit.engine.state.open.values()]) {
        this.kit.step({ type: 'outcome', token, outcome: SUCCESS });
        this.check();
      }
      if (this.kit.engine.state.open.size === 0) this.kit.pass(3_600_000);
      this.check();
    }
    const left = this.#live.map(({ uid, parked, lane }) => ({ uid, parked, lane: lane?.key }));
    assert.deepEqual(left, [], 'jobs that wait for ever');
    for (const { name, reserved, running, waiting, groups } of this.kit.engine.queue.gates.values())
      assert.deepEqual([reserved, running, waiting, groups], [0, 0, 0, 0], name);
  }

  get #live() {
    return [...this.kit.engine.state.jobs.values()].filter(({ job }) => !isTerminal(job.state));
  }
}
