/**
 * Carries out the effects that are due: orders and questions to executors and pool managers.
 *
 * R1  Of the effects with one name at most one is under way.
 * R2  An effect that gets no answer is tried again after growing pauses, for as long as it is due.
 * R3  An answer that this brain is fenced off ends the brain: another one leads.
 */
import { backoffMs } from '../kit/backoff.ts';
import type { Env } from '../kit/env/env.ts';
import { pause } from '../kit/pause.ts';
import { OrchdError } from '../model/errors.ts';
import type { Loop } from './loop.ts';

const RETRY = { baseDelayMs: 50, maxDelayMs: 1000, jitter: 0.5 };

export interface RepeatedEffect<T> {
  /** Whether the effect is still needed; asked before every try. */
  readonly isDue: () => boolean;
  /** One try. Undefined: it was answered, and has to be tried again. */
  readonly attempt: () => Promise<T | undefined>;
  /** After a try that failed, with the time since the last answer. What it throws ends the tries. */
  readonly onFailure?: (error: unknown, silentMs: number) => void;
  /** The pause after a try that was answered; growing pauses unless given. */
  readonly answeredPauseMs?: number;
}

export class EffectRunner {
  readonly #env: Env;
  readonly #loop: Pick<Loop, 'fail'>;
  readonly #underWay = new Set<string>();
  #stopped = false;

  constructor(env: Env, loop: Pick<Loop, 'fail'>) {
    this.#env = env;
    this.#loop = loop;
  }

  get stopped(): boolean {
    return this.#stopped;
  }

  stop(): void {
    this.#stopped = true;
  }

  isUnderWay(name: string): boolean {
    return this.#underWay.has(name);
  }

  /** Runs the effect unless one of this name is under way; `onEnd` is called when it no longer is. */
  run<T>(name: string, effect: RepeatedEffect<T>, onEnd?: () => void): void {
    if (this.#stopped || this.#underWay.has(name)) return;
    this.#underWay.add(name);
    this.repeat(effect)
      .catch(() => undefined)
      .then(() => {
        this.#underWay.delete(name);
        if (!this.#stopped) onEnd?.();
      })
      .catch((error: Error) => this.#loop.fail(error));
  }

  /** The value of the first try that gives one; undefined where the effect is no longer due, or the brain stops. */
  async repeat<T>({ isDue, attempt, onFailure, answeredPauseMs }: RepeatedEffect<T>): Promise<T | undefined> {
    const { clock } = this.#env;
    let answeredAt = clock.monotonic();
    for (let tries = 1; !this.#stopped && isDue(); tries++) {
      let pauseMs: number | undefined;
      try {
        const value = await attempt();
        if (value !== undefined) return value;
        answeredAt = clock.monotonic();
        pauseMs = answeredPauseMs;
      } catch (error) {
        if (this.#stopped) return undefined;
        if (isFenced(error)) {
          this.#loop.fail(error as Error);
          return undefined;
        }
        onFailure?.(error, clock.monotonic() - answeredAt);
      }
      await pause(this.#env.timers, pauseMs ?? this.pauseMs(tries));
    }
    return undefined;
  }

  /** The pause before the next try, after this number of them. */
  pauseMs(tries: number): number {
    return backoffMs(RETRY, tries, this.#env.random.next());
  }
}

const isFenced = (error: unknown): boolean => error instanceof OrchdError && error.code === 'FENCED';

/** The error for everybody else when the store has failed: FENCED stays, since another brain leads and all is well. */
export const storeFailure = (error: Error): Error =>
  isFenced(error) ? error : new OrchdError('STORE_FAILED', undefined, {}, { cause: error });
