/**
 * Tells consumers that attempts wait for them: those that wait with a request, and those that listen elsewhere. A hint that
 * is lost costs time alone: every sweep publishes again what nobody has claimed.
 */
import type { Engine } from '../../core/engine/engine.ts';
import type { Doorbell, DoorbellPlace, JobHint, PoolHints } from '../../core/ports/doorbell.ts';
import type { JobEntry } from '../../core/state/job-entry.ts';
import { crashpoint } from '../../kit/crashpoint.ts';
import type { Timers } from '../../kit/env/env.ts';
import { backendOfPool, consumerId, poolOfBackend } from '../../model/consumer-record.ts';
import type { Change } from '../../model/records.ts';
import { isClosed } from '../acknowledgements.ts';
import type { Loop } from '../loop.ts';

/** A consumer that waits with a request. */
interface Waiter {
  readonly room: number;
  readonly tokens: string[];
  readonly answer: (tokens: readonly string[]) => void;
}

export interface HintsParts {
  readonly engine: Engine;
  readonly timers: Timers;
  readonly loop: Pick<Loop, 'durable'>;
  readonly doorbell?: Doorbell | undefined;
}

export class Hints {
  readonly #parts: HintsParts;
  /** By pool, those that were given something last at the end. */
  readonly #waiters = new Map<string, Set<Waiter>>();
  /** Tokens that were given to a waiter which has not been answered yet. */
  readonly #given = new Set<string>();
  readonly #toAnswer = new Set<Waiter>();

  constructor(parts: HintsParts) {
    this.#parts = parts;
  }

  placeOf(pool: string): DoorbellPlace | undefined {
    return this.#parts.doorbell?.placeOf(pool);
  }

  /** The intent of this attempt is durable, and nobody has claimed it. */
  publish(token: string): void {
    const { engine, doorbell } = this.#parts;
    const entry = engine.state.open.get(token);
    if (!entry?.open) return;
    const pool = poolOfBackend(entry.open.backend);
    crashpoint('hint:before-publish');
    if (this.#giveToWaiter(pool, token)) return;
    if (doorbell && engine.state.consumers.hasListener(pool)) doorbell.publish(hintOf(pool, entry));
  }

  /** Attempts that these durable changes have closed need no entry any more. */
  closed(changes: readonly Change[]): void {
    const { doorbell } = this.#parts;
    if (!doorbell) return;
    for (const { kind, id, after } of changes)
      if (kind === 'attempt' && after?.isPulled && isClosed(after.state))
        doorbell.settled(poolOfBackend(after.backend), id);
  }

  /**
   * Everything that is told here is durable: an entry is removed only where its attempt was over before the last commit, and
   * published only where it waited before that, and waits still.
   */
  sweep(): void {
    const { engine, loop, doorbell } = this.#parts;
    if (!doorbell) return;
    const before = this.#pools();
    loop.durable(engine.state.seq).then(
      () =>
        doorbell.sweep(Array.from(this.#pools().values(), (pool) => sinceThen(before.get(pool.pool), pool))),
      () => undefined,
    );
  }

  /** The waiting and the held attempts of the pools with consumers that listen, as applied by now. */
  #pools(): ReadonlyMap<string, PoolHints> {
    const { consumers } = this.#parts.engine.state;
    const pools = [...consumers.pools()].filter((pool) => consumers.hasListener(pool));
    return new Map(pools.map((pool) => [pool, this.#hintsOf(pool)]));
  }

  #hintsOf(pool: string): PoolHints {
    const { consumers, pulled } = this.#parts.engine.state;
    const held = new Set<string>();
    for (const { pool: of, name } of consumers.ofPool(pool))
      for (const { token } of pulled.held(consumerId(of, name))) held.add(token);
    const waiting = Array.from(pulled.waiting(backendOfPool(pool)).values(), (entry) => hintOf(pool, entry));
    return { pool, waiting, held };
  }

  /** Resolves to tokens that wait for the pool; to none when the time is over, or `stop` is called. */
  wait(
    pool: string,
    room: number,
    ms: number,
  ): { readonly tokens: Promise<readonly string[]>; stop(): void } {
    const { promise, resolve } = Promise.withResolvers<readonly string[]>();
    const waiters = this.#waiters.get(pool) ?? new Set<Waiter>();
    this.#waiters.set(pool, waiters);
    const answer = (tokens: readonly string[]): void => {
      cancel();
      waiters.delete(waiter);
      if (waiters.size === 0) this.#waiters.delete(pool);
      resolve(tokens);
    };
    const waiter: Waiter = { room, tokens: [], answer };
    waiters.add(waiter);
    const cancel = this.#parts.timers.after(ms, () => answer(waiter.tokens));
    return { tokens: promise, stop: () => answer(waiter.tokens) };
  }

  /** Jobs that come together are spread over all that wait. */
  #giveToWaiter(pool: string, token: string): boolean {
    if (this.#given.has(token)) return true;
    const waiters = this.#waiters.get(pool);
    for (const waiter of waiters ?? []) {
      if (waiter.tokens.length >= waiter.room) continue;
      waiter.tokens.push(token);
      this.#given.add(token);
      waiters?.delete(waiter);
      waiters?.add(waiter);
      if (this.#toAnswer.size === 0) this.#parts.timers.soon(() => this.#answer());
      this.#toAnswer.add(waiter);
      return true;
    }
    return false;
  }

  #answer(): void {
    for (const { answer, tokens } of this.#toAnswer) answer(tokens);
    this.#toAnswer.clear();
    this.#given.clear();
  }
}

function sinceThen(before: PoolHints | undefined, now: PoolHints): PoolHints {
  const known = new Set(before?.waiting.map(({ token }) => token));
  const held = new Set([...(before?.held ?? []), ...known, ...now.held]);
  for (const { token } of now.waiting) if (!known.has(token)) held.add(token);
  const waiting = now.waiting.filter(({ token }) => known.has(token));
  for (const { token } of waiting) held.delete(token);
  return { ...now, waiting, held };
}

const hintOf = (pool: string, { token, ask }: JobEntry): JobHint => ({
  pool,
  token,
  jobId: ask.id,
  type: ask.spec.type,
  // The texts of a session are sealed.
  ...(typeof ask.payload === 'string' && ask.spec.session_id === undefined && { payloadText: ask.payload }),
});
