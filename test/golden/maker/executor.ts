/** An executor that does to each attempt what a table says of its token, and to all others the usual. */
import type { Backend, ExecutionOutcome, FollowEnd, Inspection, KillReply, Offer, OfferReply } from '../../../src/core/ports/backend.ts';
import { errorInfo } from '../../../src/model/errors.ts';
import { usedTokens } from '../../fakes/used-tokens.ts';
import { START } from './still-world.ts';

const NEVER = new Promise<never>(() => undefined);
export const never = (): Promise<never> => NEVER;

/** Answers of an executor about one attempt; a method that is left out gives the usual answer. */
export interface Behaviour {
  readonly offer?: () => Promise<OfferReply>;
  readonly follow?: () => Promise<FollowEnd>;
  readonly kill?: () => Promise<KillReply>;
  /** True: the executor knows the attempt when it is asked. Otherwise it has forgotten it. */
  readonly isKnown?: boolean;
}

export const ends = (outcome: ExecutionOutcome): Behaviour => ({
  follow: async () => ({ is: 'ended', outcome }),
});

export const fails = (message: string, retriable: boolean): Behaviour =>
  ends({ ok: false, error: { ...errorInfo('EXECUTION_FAILED', message), retriable } });

export const answers = (value: unknown, usage?: { prompt: number; completion: number }): Behaviour =>
  ends({ ok: true, resultText: JSON.stringify(value), ...(usage && { usage: usedTokens(usage.prompt, usage.completion, 100) }) });

/** Runs until it is killed. */
export const RUNS: Behaviour = { follow: never, isKnown: true };

/** Its events can no longer be read, and nobody remembers it. */
export const IS_FORGOTTEN: Behaviour = { follow: async () => ({ is: 'lost' }) };

export class ScriptedExecutor implements Backend {
  readonly info: Backend['info'];
  readonly #behaviours: Readonly<Record<string, Behaviour>>;

  constructor(info: Backend['info'], behaviours: Readonly<Record<string, Behaviour>>) {
    this.info = info;
    this.#behaviours = behaviours;
  }

  offer({ token }: Offer): Promise<OfferReply> {
    return this.#of(token).offer?.() ?? Promise.resolve({ is: 'accepted' });
  }

  follow(token: string): Promise<FollowEnd> {
    const [id, attempt] = token.split(':');
    const usual = answers({ says: id, try: Number(attempt) });
    return (this.#of(token).follow ?? usual.follow ?? never)();
  }

  async inspect(tokens: readonly string[]): Promise<Inspection> {
    const running = tokens.filter((token) => this.#of(token).isKnown);
    const known = new Map(running.map((token) => [token, { is: 'running' } as const]));
    return { registry: this.info.registry, rememberedSince: START - 1000, known };
  }

  kill(token: string): Promise<KillReply> {
    const { kill, offer } = this.#of(token);
    if (kill) return kill();
    if (!offer) return Promise.resolve({ is: 'ended', outcome: { ok: 'cancelled' } });
    // The attempt was never accepted.
    return Promise.resolve({
      is: 'tombstoned',
      registry: this.info.registry,
      rememberedSince: START - 1000,
    });
  }

  async ack(): Promise<void> {}

  #of(token: string): Behaviour {
    return this.#behaviours[token] ?? {};
  }
}
