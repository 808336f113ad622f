/**
 * A provider that keeps its own bill: it counts tokens for every execution, however that ends, and remembers them all. It
 * outlives the brain, as another machine does.
 */
import type { Backend, BackendInfo, ExecutionOutcome, Offer } from '../../src/core/ports/backend.ts';
import type { TokenCounts } from '../../src/model/usage.ts';

/** How the tries of a job end: `hold` waits until it is killed. The last one is that of all further tries. */
export type MeteredTries = readonly ('succeed' | 'fail' | 'hold')[];

const FAILED = { code: 'EXECUTION_FAILED', message: 'no luck', retriable: true } as const;

export class MeteredProvider implements Backend {
  readonly info: BackendInfo;
  /** What every execution used, by its token. */
  readonly used = new Map<string, TokenCounts>();
  readonly #ended = new Map<string, ExecutionOutcome>();
  readonly #held = new Map<string, () => void>();

  constructor(name: string, models: readonly string[]) {
    this.info = {
      name,
      kind: 'fake',
      slots: 100,
      types: ['inference'],
      models,
      labels: {},
      paid: true,
      keepsResults: true,
      registry: name,
    };
  }

  offer = async ({ token, payloadText, attempt }: Offer) => {
    const { tries } = JSON.parse(payloadText) as { tries: MeteredTries };
    const n = this.used.size + 1;
    const counts = { input: 100 + n, cacheRead: 7 * n, cacheWrite: n, output: 11 * n, reasoning: n };
    this.used.set(token, counts);
    const usage = { ...counts, decodeMs: 0 };
    const how = tries[Math.min(attempt, tries.length) - 1];
    if (how === 'succeed') this.#ended.set(token, { ok: true, resultText: '"done"', usage });
    else if (how === 'fail') this.#ended.set(token, { ok: false, error: FAILED, usage });
    else this.#held.set(token, () => this.#ended.set(token, { ok: 'cancelled', usage }));
    return { is: 'accepted' } as const;
  };

  follow: Backend['follow'] = async (token, _from, _on, _who, signal) => {
    const outcome = this.#ended.get(token);
    if (outcome) return { is: 'ended', outcome };
    await new Promise((resolve) => signal?.addEventListener('abort', resolve));
    return { is: 'lost' };
  };

  inspect = async (tokens: readonly string[]) => {
    const known = new Map(
      tokens.filter((token) => this.used.has(token)).map((token) => [token, this.#statusOf(token)]),
    );
    return { registry: this.info.registry ?? '', rememberedSince: 0, known };
  };

  kill = async (token: string) => {
    this.#held.get(token)?.();
    const outcome = this.#ended.get(token);
    if (outcome) return { is: 'ended', outcome } as const;
    return { is: 'tombstoned', registry: this.info.registry ?? '', rememberedSince: 0 } as const;
  };

  ack = async () => undefined;

  #statusOf(token: string) {
    const outcome = this.#ended.get(token);
    return outcome ? ({ is: 'ended', outcome } as const) : ({ is: 'running' } as const);
  }
}
