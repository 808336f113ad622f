/**
 * Tells consumers that attempts wait for them: those that wait with a claim, and those that listen elsewhere. A hint that
 * is lost costs time alone: every sweep publishes again what nobody has claimed.
 *
 * An attempt that is recorded while a claim waits for one is claimed in the same turn of the loop: both are one commit, and
 * the consumer begins after it, as after any other claim.
 */
import type { ReplyTo } from '../../core/engine/areas.ts';
import type { Engine } from '../../core/engine/engine.ts';
import type { Doorbell, DoorbellPlace, JobHint, PoolHints } from '../../core/ports/doorbell.ts';
import type { JobEntry } from '../../core/state/job-entry.ts';
import { crashpoint } from '../../kit/crashpoint.ts';
import type { Timers } from '../../kit/env/env.ts';
import { backendOfPool, consumerId, poolOfBackend } from '../../model/consumer-record.ts';
import type { Change } from '../../model/records.ts';
import { isClosed } from '../acknowledgements.ts';
import type { Loop, QueuedEvent } from '../loop.ts';

/** A claim that waits for work. */
export interface WaitingClaim {
  readonly pool: string;
  readonly consumer: string;
  readonly claim: number;
  readonly atMost: number;
  readonly waitMs: number;
  /** The sequence number up to which the claim has looked for attempts, and found none. */
  readonly since: number;
}

type ClaimReply = ReplyTo<'claim'>;

interface Waiter {
  readonly order: WaitingClaim;
  readonly tokens: string[];
  readonly resolve: (reply: ClaimReply | undefined) => void;
  readonly reject: (error: Error) => void;
  /** Takes the waiter off the list, and stops its timer. */
  readonly leave: () => void;
}

export interface HintsParts {
  readonly engine: Engine;
  readonly timers: Timers;
  readonly loop: Pick<Loop, 'durable' | 'ask' | 'failed'>;
  readonly doorbell?: Doorbell | undefined;
}

export class Hints {
  readonly #parts: HintsParts;
  /** By pool, those that were given something last at the end. */
  readonly #waiters = new Map<string, Set<Waiter>>();
  /** Waiters that were given tokens and have not claimed them yet; `#given` has these tokens. */
  readonly #toClaim = new Set<Waiter>();
  readonly #given = new Set<string>();
  #isClaiming = false;
  #failure: Error | undefined;

  constructor(parts: HintsParts) {
    this.#parts = parts;
    void parts.loop.failed.then((error) => this.#fail(error));
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
    if (this.#giveToWaiter(pool, token)) return this.#claimSoon();
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

  /** Resolves to what was claimed; to undefined when the time is over, or `stop` is called. */
  wait(order: WaitingClaim): { readonly claimed: Promise<ClaimReply | undefined>; stop(): void } {
    const { promise, resolve, reject } = Promise.withResolvers<ClaimReply | undefined>();
    const { pool, waitMs } = order;
    const waiters = this.#waiters.get(pool) ?? new Set<Waiter>();
    this.#waiters.set(pool, waiters);
    const leave = (): void => {
      cancel();
      waiters.delete(waiter);
      if (waiters.size === 0 && this.#waiters.get(pool) === waiters) this.#waiters.delete(pool);
    };
    const stop = (): void => {
      // Its claim is on its way, and answers.
      if (waiter.tokens.length > 0) return;
      leave();
      resolve(undefined);
    };
    const waiter: Waiter = { order, tokens: [], resolve, reject, leave };
    waiters.add(waiter);
    const cancel = this.#parts.timers.after(waitMs, stop);
    if (this.#failure) this.#fail(this.#failure);
    else this.#offerMissed(order);
    return { claimed: promise, stop };
  }

  /** Gives out the attempts that were recorded after the claim had looked for some, and before it was on the list. */
  #offerMissed({ pool, since }: WaitingClaim): void {
    const waiting = this.#parts.engine.state.pulled.waiting(backendOfPool(pool));
    for (const [token, { seq }] of waiting) if (seq > since && !this.#giveToWaiter(pool, token)) break;
    if (this.#toClaim.size > 0) this.#claimSoon();
  }

  /** The loop has failed: it answers no claim any more. */
  #fail(error: Error): void {
    this.#failure = error;
    for (const waiters of [...this.#waiters.values()])
      for (const { leave, reject } of [...waiters]) {
        leave();
        reject(error);
      }
  }

  /** The claims that have waited for attempts which a turn has recorded. */
  awaited(changes: readonly Change[]): QueuedEvent[] {
    if (this.#waiters.size === 0) return [];
    for (const { kind, id, after } of changes)
      if (kind === 'attempt' && after?.isPulled && after.state === 'intended')
        this.#giveToWaiter(poolOfBackend(after.backend), id);
    return this.#claims();
  }

  /** Jobs that come together are spread over all that wait. */
  #giveToWaiter(pool: string, token: string): boolean {
    if (this.#given.has(token)) return true;
    const waiters = this.#waiters.get(pool);
    for (const waiter of waiters ?? []) {
      if (waiter.tokens.length >= waiter.order.atMost || !this.#isLive(waiter.order)) continue;
      waiter.tokens.push(token);
      this.#given.add(token);
      waiters?.delete(waiter);
      waiters?.add(waiter);
      this.#toClaim.add(waiter);
      return true;
    }
    return false;
  }

  /** A silent consumer may be dead, whatever connection it has left behind. */
  #isLive({ consumer }: WaitingClaim): boolean {
    const { consumers } = this.#parts.engine.state;
    return consumers.get(consumers.idOf(consumer) ?? '')?.state === 'live';
  }

  #claimSoon(): void {
    if (this.#isClaiming) return;
    this.#isClaiming = true;
    this.#parts.timers.soon(() => {
      this.#isClaiming = false;
      for (const { event, resolve, reject } of this.#claims())
        this.#parts.loop.ask(event).then(resolve, reject);
    });
  }

  /** The claims of all waiters that were given tokens; these waiters leave the list. */
  #claims(): QueuedEvent[] {
    const claims = Array.from(this.#toClaim, ({ order, tokens, resolve, reject, leave }) => {
      leave();
      const { consumer, claim, atMost } = order;
      return { event: { type: 'claim', consumer, claim, atMost, tokens }, resolve, reject };
    });
    this.#toClaim.clear();
    this.#given.clear();
    return claims as QueuedEvent[];
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
