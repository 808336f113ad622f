/** Asks for jobs, one claim at a time. */
import type { Env } from '../kit/env/env.ts';
import { pause } from '../kit/pause.ts';
import type { ClaimAnswer } from '../model/http/consumers.ts';
import type { Shape } from '../model/http/shape.ts';
import { type ConsumerApi, isGone } from './api.ts';
import { Pauses } from './pauses.ts';
import type { Runner } from './runner.ts';
import type { Work } from './work.ts';

/** How much longer than it waits for work a claim may take. */
const SLACK_MS = 15_000;
/** Tries to hear what a claim has taken, when the consumer is to stop. */
const LAST_TRIES = 3;

export interface ClaimsParts {
  readonly env: Pick<Env, 'timers' | 'random'>;
  readonly api: ConsumerApi;
  readonly work: Work;
  readonly runner: Runner;
  readonly path: (rest: string) => string;
  readonly onGone: () => void;
  readonly onProblem: (message: string) => void;
}

export type Answer = Shape<typeof ClaimAnswer>;

/** The jobs that a claim asks for: those with these tokens, or any where there are none; and how long it waits for some. */
export interface Wanted {
  readonly waitMs: number;
  readonly tokens?: readonly string[];
}

export class Claims {
  readonly #parts: ClaimsParts;
  #number: number;
  #cut = new AbortController();

  /** The claim `before` may have been sent already: the first one has its number. */
  constructor(parts: ClaimsParts, before: number) {
    this.#parts = parts;
    this.#number = Math.max(0, before - 1);
    parts.work.claimed = this.#number;
  }

  /** Ends the wait of a claim that is under way. */
  cut(): void {
    this.#cut.abort();
  }

  /**
   * Takes up to `room` jobs. The number of a claim is repeated until its answer has arrived, so that no job is lost with an
   * answer. Undefined where the consumer was forgotten meanwhile, or the brain does not answer while it is to stop.
   */
  async take(room: number, stop: AbortSignal, wanted: Wanted): Promise<Answer | undefined> {
    const { env, work, runner, onGone, onProblem } = this.#parts;
    const { registration } = work;
    const pauses = new Pauses(env.random);
    this.#number += 1;
    await runner.claiming?.(this.#number);
    while (work.registration === registration) {
      try {
        const answer = await this.#ask(room, stop.aborted, wanted);
        if (work.registration !== registration) return undefined;
        work.claimed = this.#number;
        return answer;
      } catch (error) {
        if (isGone(error)) {
          if (work.registration === registration) onGone();
          return undefined;
        }
        if (stop.aborted && pauses.count >= LAST_TRIES) return undefined;
        if (!this.#cut.signal.aborted)
          onProblem(`a claim failed: ${error instanceof Error ? error.message : error}`);
      }
      await pause(env.timers, pauses.next(), stop.aborted ? undefined : stop);
    }
    return undefined;
  }

  #ask(room: number, isLast: boolean, { waitMs, tokens = [] }: Wanted): Promise<Answer> {
    const { api, path } = this.#parts;
    this.#cut = new AbortController();
    const wait = isLast ? 0 : waitMs;
    const only = tokens.length > 0 && !isLast ? { tokens } : {};
    return api.call('POST', path('/claim'), {
      body: { claim: this.#number, max: isLast ? 1 : room, wait_ms: wait, ...only },
      timeoutMs: wait + SLACK_MS,
      signal: this.#cut.signal,
    });
  }
}
