/**
 * A backend whose jobs a test begins to see when they start and ends when it likes. It keeps results and outlives
 * the brains it serves, as another machine would; every call it got is in its books.
 */

import type {
  Backend,
  BackendInfo,
  ExecutionEvent,
  ExecutionOutcome,
  FollowEnd,
  Inspection,
  KillReply,
  Offer,
  OfferReply,
} from '../../src/core/ports/backend.ts';
import { within } from './flow-kit.ts';

interface Play {
  readonly offer: Offer;
  readonly events: ExecutionEvent[];
  outcome: ExecutionOutcome | undefined;
}

export class Stage implements Backend {
  readonly info: BackendInfo;
  /** Tokens in the order of their first offer, and everything else that was asked. */
  readonly started: string[] = [];
  readonly offers: Offer[] = [];
  readonly kills: string[] = [];
  readonly acks: string[] = [];
  /** The most that ran at once. */
  peak = 0;
  /** Called for every offer; an answer other than undefined is given instead of a start. */
  answer: (offer: Offer) => OfferReply | Promise<OfferReply | undefined> | undefined = () => undefined;
  /** A kill ends the work; set it to false for work that ignores kills. */
  obeys = true;
  readonly #plays = new Map<string, Play>();
  readonly #tombstones = new Set<string>();
  #watchers: (() => void)[] = [];

  constructor(info: Partial<BackendInfo> = {}) {
    this.info = {
      name: 'stage',
      kind: 'stage',
      slots: 1,
      types: undefined,
      models: undefined,
      labels: {},
      paid: true,
      keepsResults: true,
      registry: 'stage registry',
      ...info,
    };
  }

  get running(): number {
    return [...this.#plays.values()].filter(({ outcome }) => !outcome).length;
  }

  get runningTokens(): string[] {
    return [...this.#plays.values()].filter(({ outcome }) => !outcome).map(({ offer }) => offer.token);
  }

  /** Resolves as soon as it is so. */
  async until(isSo: () => boolean): Promise<void> {
    while (!isSo()) await within(new Promise<void>((resolve) => this.#watchers.push(resolve)));
  }

  async startedCount(count: number): Promise<void> {
    await this.until(() => this.started.length >= count);
  }

  emit(token: string, type: ExecutionEvent['type'], data: unknown): void {
    const play = this.#plays.get(token)!;
    play.events.push({ n: play.events.length + 1, type, data });
    this.#changed();
  }

  end(token: string, outcome: ExecutionOutcome = { ok: true, resultText: JSON.stringify(token) }): void {
    const play = this.#plays.get(token);
    if (!play || play.outcome) return;
    play.outcome = outcome;
    this.#changed();
  }

  /** Ends whatever runs, now and from now on. */
  endAll(): void {
    for (const token of this.runningTokens) this.end(token);
  }

  async offer(offer: Offer): Promise<OfferReply> {
    const { token } = offer;
    this.offers.push(offer);
    this.#changed();
    if (this.#plays.has(token)) return { is: 'accepted' };
    if (this.#tombstones.has(token)) throw new Error(`${token} was offered after it was killed`);
    const instead = await this.answer(offer);
    if (instead) return instead;
    this.#plays.set(token, { offer, events: [], outcome: undefined });
    this.started.push(token);
    this.peak = Math.max(this.peak, this.running);
    this.#changed();
    return { is: 'accepted' };
  }

  async inspect(tokens: readonly string[]): Promise<Inspection> {
    const known = new Map();
    for (const token of tokens) {
      const play = this.#plays.get(token);
      if (play) known.set(token, play.outcome ? { is: 'ended', outcome: play.outcome } : { is: 'running' });
    }
    const others = [...this.#plays]
      .filter(([token]) => !tokens.includes(token) && !this.acks.includes(token))
      .map(([token, { outcome }]) => ({ token, isRunning: !outcome }));
    return { registry: this.info.registry, rememberedSince: 0, known, others };
  }

  async follow(
    token: string,
    from: number,
    on: (event: ExecutionEvent) => void,
    _who?: unknown,
    signal?: AbortSignal,
  ): Promise<FollowEnd> {
    const play = this.#plays.get(token);
    if (!play) return { is: 'lost' };
    let sent = from;
    for (;;) {
      for (const event of play.events.slice(sent)) {
        sent = event.n;
        on(event);
      }
      if (play.outcome) return { is: 'ended', outcome: play.outcome };
      if (signal?.aborted) return { is: 'lost' };
      await new Promise<void>((resolve) => {
        this.#watchers.push(resolve);
        signal?.addEventListener('abort', () => resolve(), { once: true });
      });
    }
  }

  async kill(token: string): Promise<KillReply> {
    this.kills.push(token);
    this.#changed();
    const play = this.#plays.get(token);
    if (!play) {
      this.#tombstones.add(token);
      return { is: 'tombstoned', registry: this.info.registry, rememberedSince: 0 };
    }
    if (play.outcome) return { is: 'ended', outcome: play.outcome };
    if (this.obeys) this.end(token, { ok: 'cancelled' });
    return { is: 'stopping' };
  }

  async ack(token: string): Promise<void> {
    this.acks.push(token);
    if (!this.#plays.get(token)?.outcome) throw new Error(`${token} was acknowledged before its end`);
    this.#changed();
  }

  #changed(): void {
    for (const wake of this.#watchers.splice(0)) wake();
  }
}
