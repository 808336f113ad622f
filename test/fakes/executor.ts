/**
 * An executor that misbehaves on purpose. It stands for another machine: it outlives the brain, keeps a ledger
 * of everything it really ran, and by its script delays, loses, repeats, refuses, hangs, forgets and lies.
 */

import {
  type AskedWait,
  type Backend,
  type BackendInfo,
  type ExecutionEnd,
  type ExecutionEvent,
  type ExecutionOutcome,
  type ExecutionStatus,
  type FollowEnd,
  type Inspection,
  isMeantFor,
  isOtherBody,
  type KillHow,
  type KillReply,
  type Offer,
  type OfferReply,
} from '../../src/core/ports/backend.ts';
import { errorInfo, OrchdError } from '../../src/model/errors.ts';
import type { Commander } from '../../src/model/worker-wire.ts';
import { judgeOpening, type KnownOpenings } from '../../src/wire/epochs.ts';
import type { World } from './world.ts';

/** Probabilities, 0 to 1, and times in ms. All absent: an executor that behaves. */
export interface Script {
  readonly loseRequest?: number;
  readonly loseReply?: number;
  readonly repeatOffer?: number;
  readonly busy?: number;
  readonly refuse?: number;
  readonly hang?: number;
  readonly failRetriably?: number;
  readonly failForGood?: number;
  /** The provider behind it does nothing for the job. */
  readonly turnAway?: number;
  readonly ignoreKill?: number;
  readonly loseAck?: number;
  readonly networkMs?: readonly [number, number];
  readonly workMs?: readonly [number, number];
  /** Says that it knows nothing of a token it runs, with a new registry: it has lost its memory. */
  readonly resultText?: (offer: Offer) => string;
  /** The wait with which it ends instead of a result, if it does. */
  readonly waits?: (offer: Offer) => AskedWait | undefined;
  /** Does the work in place of the times and chances above: hands on its pieces and resolves with its end. */
  readonly work?: (offer: Offer, emit: (text: string) => void) => Promise<ExecutionOutcome>;
}

export interface Run {
  readonly owner: string;
  readonly token: string;
  readonly job: string;
  readonly startedAt: number;
  endedAt: number | undefined;
  outcome: ExecutionOutcome['ok'] | 'died' | undefined;
}

interface Execution {
  readonly run: Run;
  readonly hash: string | undefined;
  readonly events: ExecutionEvent[];
  end: ExecutionEnd | undefined;
  readonly readers: Set<() => void>;
}

export class FakeExecutor {
  readonly world: World;
  readonly ledger: Run[] = [];
  script: Script;
  reachable = true;
  #info: Omit<BackendInfo, 'registry'>;
  #registry: string;
  #since: number;
  readonly #executions = new Map<string, Execution>();
  readonly #tombstones = new Set<string>();
  readonly #openings = new Map<string, KnownOpenings>();
  forgets = 0;

  constructor(world: World, info: Partial<BackendInfo> & { name: string }, script: Script = {}) {
    this.world = world;
    this.script = script;
    this.#info = {
      kind: 'fake',
      slots: 1,
      types: undefined,
      models: undefined,
      labels: {},
      paid: true,
      keepsResults: true,
      ...info,
    };
    this.#registry = world.random.hex(4);
    this.#since = world.clock.now();
  }

  get info(): BackendInfo {
    return { ...this.#info, registry: this.#registry };
  }

  knows(token: string): boolean {
    return [...this.#executions.values()].some(({ run }) => run.token === token);
  }

  /** Whether it can no longer tell how an attempt of this instant ended, or whether it ran at all. */
  cannotTell(owner: string, token: string, at: number): boolean {
    const known = this.#executions.get(keyOf(owner, token));
    return known ? known.end?.is === 'forgotten' : this.#since > at;
  }

  get running(): number {
    return [...this.#executions.values()].filter(({ end }) => !end).length;
  }

  /** Restarts with an empty memory: what ran is dead, what had ended is gone. */
  forget(): void {
    this.forgets++;
    for (const { run, readers } of this.#executions.values()) {
      if (run.endedAt === undefined) {
        run.endedAt = this.world.now;
        run.outcome = 'died';
      }
      for (const wake of readers) wake();
    }
    this.#executions.clear();
    this.#tombstones.clear();
    this.#registry = this.world.random.hex(4);
    this.#since = this.world.clock.now();
  }

  /** What watched over the running executions dies: they are dead, or have done their work, and nobody can tell. */
  loseRunning(): void {
    for (const execution of this.#executions.values()) {
      if (execution.end) continue;
      execution.end = { is: 'forgotten' };
      execution.run.endedAt = this.world.now;
      execution.run.outcome = 'died';
      this.world.note(`lose ${execution.run.token}`);
      wakeReaders(execution);
    }
  }

  /** Somebody ends what still runs for owners that nobody is any more. */
  endOthers(owner: string): void {
    for (const execution of this.#executions.values())
      if (execution.run.owner !== owner) this.#end(execution, { ok: 'cancelled' });
  }

  offer(offer: Offer): OfferReply {
    const { token } = offer;
    if (this.#isFenced(offer)) return { is: 'fenced' };
    if (!isMeantFor(this.#registry, offer)) return { is: 'busy', retryAfterMs: 20 };
    const known = this.#executions.get(keyOf(offer.owner, token));
    if (known) return isOtherBody(known.hash, offer.ask.hash) ? { is: 'conflict' } : { is: 'accepted' };
    if (this.#tombstones.has(keyOf(offer.owner, token)))
      return { is: 'refused', error: errorInfo('FENCED', 'tombstone') };
    if (this.#info.types?.includes(offer.ask.spec.type) === false) {
      return {
        is: 'refused',
        error: errorInfo('WORKER_NOT_FOUND', `"${offer.ask.spec.type}" is not run here`),
      };
    }
    if (this.running >= this.#info.slots || this.world.random.chance(this.script.busy ?? 0)) {
      return { is: 'busy', retryAfterMs: 20 };
    }
    if (this.world.random.chance(this.script.refuse ?? 0)) {
      return { is: 'refused', error: errorInfo('POOL_UNAVAILABLE') };
    }
    this.#start(offer);
    return { is: 'accepted' };
  }

  inspect(tokens: readonly string[], who: Commander): Inspection | OrchdError {
    if (this.#isFenced(who)) return new OrchdError('FENCED');
    const known = new Map<string, ExecutionStatus>();
    for (const token of tokens) {
      const execution = this.#executions.get(keyOf(who.owner, token));
      if (execution) known.set(token, statusOf(execution));
    }
    const openingBefore = this.#openings.get(who.owner)?.before;
    const others = [...this.#executions.values()]
      .filter(({ run }) => run.owner === who.owner && !tokens.includes(run.token))
      .map(({ run }) => ({ token: run.token, isRunning: run.endedAt === undefined }));
    return { registry: this.#registry, rememberedSince: this.#since, known, openingBefore, others };
  }

  async follow(
    token: string,
    from: number,
    on: (event: ExecutionEvent) => void,
    { owner }: Commander,
    signal?: AbortSignal,
  ): Promise<FollowEnd> {
    const key = keyOf(owner, token);
    const execution = this.#executions.get(key);
    if (!execution) return { is: 'lost' };
    let sent = from;
    for (;;) {
      for (const event of execution.events) {
        if (event.n <= sent || signal?.aborted) continue;
        sent = event.n;
        on(event);
      }
      if (signal?.aborted) return { is: 'lost' };
      if (execution.end) return execution.end;
      if (this.#executions.get(key) !== execution) return { is: 'lost' };
      await new Promise<void>((resolve) => {
        execution.readers.add(resolve);
        signal?.addEventListener('abort', () => resolve(), { once: true });
      });
    }
  }

  kill(token: string, who: Commander, how: KillHow): KillReply {
    if (this.#isFenced(who)) return { is: 'fenced' };
    const execution = this.#executions.get(keyOf(who.owner, token));
    if (!execution) {
      this.#tombstones.add(keyOf(who.owner, token));
      const openingBefore = this.#openings.get(who.owner)?.before;
      return {
        is: 'tombstoned',
        registry: this.#registry,
        rememberedSince: this.#since,
        ...(openingBefore && { openingBefore }),
      };
    }
    if (execution.end) return withHash(execution.end, execution);
    if (how === 'bury') return { is: 'running' };
    if (!this.world.random.chance(this.script.ignoreKill ?? 0)) {
      this.world.after(this.world.random.between(0, 30), () => this.#end(execution, { ok: 'cancelled' }));
    }
    return { is: 'stopping' };
  }

  ack(token: string, who: Commander): void {
    if (this.world.random.chance(this.script.loseAck ?? 0)) return;
    if (this.#isFenced(who)) return;
    const key = keyOf(who.owner, token);
    if (!this.#executions.get(key)?.end) return;
    this.#executions.delete(key);
    this.#tombstones.add(key);
  }

  #isFenced(who: Commander): boolean {
    const verdict = judgeOpening(this.#openings.get(who.owner), who);
    if (verdict.is === 'newer') this.#openings.set(who.owner, verdict.openings);
    return verdict.is === 'fenced';
  }

  #start(offer: Offer): void {
    const { world, script } = this;
    const job = offer.token.slice(0, offer.token.lastIndexOf(':'));
    const run: Run = {
      owner: offer.owner,
      token: offer.token,
      job,
      startedAt: world.now,
      endedAt: undefined,
      outcome: undefined,
    };
    this.ledger.push(run);
    world.note(`run ${offer.token}`);
    const { hash } = offer.ask;
    const execution: Execution = { run, hash, events: [], end: undefined, readers: new Set() };
    this.#executions.set(keyOf(offer.owner, offer.token), execution);
    if (script.work) {
      void script.work(offer, (text) => emit(execution, text)).then((end) => this.#end(execution, end));
      return;
    }
    if (world.random.chance(script.hang ?? 0)) return;
    const [least, most] = script.workMs ?? [5, 50];
    world.after(world.random.between(least, most), () => this.#end(execution, this.#outcomeOf(offer)));
  }

  #outcomeOf(offer: Offer): ExecutionOutcome {
    const { script } = this;
    const chance = this.world.random.next();
    const forGood = script.failForGood ?? 0;
    if (chance < forGood) return { ok: false, error: errorInfo('EXECUTION_FAILED') };
    const retriably = forGood + (script.failRetriably ?? 0);
    if (chance < retriably) return { ok: false, error: errorInfo('WORKER_TIMEOUT') };
    if (chance < retriably + (script.turnAway ?? 0))
      return { ok: 'turned_away', why: 'rate_limited', error: errorInfo('RATE_LIMITED') };
    const wait = script.waits?.(offer);
    if (wait) return wait;
    return { ok: true, resultText: script.resultText?.(offer) ?? JSON.stringify({ ran: offer.token }) };
  }

  #end(execution: Execution, outcome: ExecutionOutcome): void {
    if (execution.end || execution.run.endedAt !== undefined) return;
    execution.end = { is: 'ended', outcome };
    execution.run.endedAt = this.world.now;
    execution.run.outcome = outcome.ok;
    this.world.note(`end ${execution.run.token} ${outcome.ok}`);
    wakeReaders(execution);
  }
}

function wakeReaders({ readers }: Execution): void {
  for (const wake of readers) wake();
  readers.clear();
}

function emit(execution: Execution, text: string): void {
  if (execution.run.endedAt !== undefined) return;
  const { events } = execution;
  events.push({ n: events.length + 1, type: 'token', data: { t: text, i: events.length } });
  wakeReaders(execution);
}

function statusOf(execution: Execution): ExecutionStatus {
  return withHash(execution.end ?? ({ is: 'running' } as const), execution);
}

const withHash = <T extends object>(status: T, { hash }: Execution): T & { readonly hash?: string } =>
  hash === undefined ? status : { ...status, hash };

/** A token belongs to its owner: a copy of a store gives its tokens the same names. */
const keyOf = (owner: string, token: string): string => `${owner}/${token}`;

/** The connection of one brain to an executor: requests and replies take time and get lost. */
export class FakeLine implements Backend {
  readonly #executor: FakeExecutor;
  readonly #owner: { readonly alive: boolean };

  constructor(executor: FakeExecutor, owner: { readonly alive: boolean }) {
    this.#executor = executor;
    this.#owner = owner;
  }

  get info(): BackendInfo {
    return this.#executor.info;
  }

  offer(offer: Offer): Promise<OfferReply> {
    const { world, script } = this.#executor;
    if (world.random.chance(script.repeatOffer ?? 0)) {
      // A copy that some box on the way kept, and delivers when nobody expects it.
      world.after(world.random.between(50, 20_000), () => this.#executor.offer(offer));
    }
    return this.#send(() => this.#executor.offer(offer));
  }

  inspect(tokens: readonly string[], who: Commander): Promise<Inspection> {
    return this.#send(() => this.#executor.inspect(tokens, who));
  }

  async follow(
    token: string,
    from: number,
    on: (event: ExecutionEvent) => void,
    who: Commander,
    signal?: AbortSignal,
  ): Promise<FollowEnd> {
    await this.#send(() => undefined);
    const hear = (event: ExecutionEvent): unknown => this.#owner.alive && on(event);
    const end = await this.#executor.follow(token, from, hear, who, signal);
    if (this.#executor.world.random.chance(this.#executor.script.loseReply ?? 0)) return { is: 'lost' };
    return this.#send(() => end);
  }

  kill(token: string, who: Commander, how: KillHow = 'end'): Promise<KillReply> {
    return this.#send(() => this.#executor.kill(token, who, how));
  }

  ack(token: string, who: Commander): Promise<void> {
    return this.#send(() => this.#executor.ack(token, who));
  }

  /** There and back; a sender that dies on the way has still sent. An error that is the reply is thrown. */
  #send<T>(run: () => T | OrchdError): Promise<T> {
    const { world, script, reachable } = this.#executor;
    const [least, most] = script.networkMs ?? [0.1, 3];
    const lost = !reachable || world.random.chance(script.loseRequest ?? 0);
    const answerLost = world.random.chance(script.loseReply ?? 0);
    return new Promise((resolve, reject) => {
      const fail = (): void => {
        world.after(world.random.between(20, 200), () => this.#owner.alive && reject(new Error('no answer')));
      };
      if (lost) return fail();
      world.after(world.random.between(least, most), () => {
        const reply = run();
        if (answerLost) return fail();
        const settle = (): void => (reply instanceof OrchdError ? reject(reply) : resolve(reply));
        world.after(world.random.between(least, most), () => this.#owner.alive && settle());
      });
    });
  }
}
