/**
 * The window in which a budget counts. It follows brain time and never goes back: where the clock is set back over the
 * start of a window, that window goes on, so that nothing is granted a second time.
 */
import { type Window, windowAt } from '../../kit/window.ts';
import type { Limit } from './limit.ts';

export class BudgetWindow {
  readonly #kind: 'hour' | 'day' | 'week' | 'month' | undefined;
  readonly #timeZone: string;
  #now: Window | undefined;

  constructor({ window = 'total', timeZone = 'UTC' }: Pick<Limit, 'window' | 'timeZone'>, now: number) {
    this.#kind = window === 'total' ? undefined : window;
    this.#timeZone = timeZone;
    this.#now = this.#kind && windowAt(this.#kind, timeZone, now);
  }

  /** The first instant of the window; undefined for a budget in total. */
  get start(): number | undefined {
    return this.#now?.start;
  }

  /** When the budget starts anew. */
  get end(): number {
    return this.#now?.end ?? Number.POSITIVE_INFINITY;
  }

  /** Begins the window of this instant. Returns whether it is a new one: what was used before no longer counts. */
  roll(now: number): boolean {
    if (!this.#kind || now < this.end) return false;
    this.#now = windowAt(this.#kind, this.#timeZone, now);
    return true;
  }

  /**
   * Goes on where an earlier brain, or an earlier limit, was. Returns whether what was used until `at` still counts: it does
   * if it was written in the present window. A stored window that begins later is kept: the clock was set back since.
   */
  resume(stored: { readonly window?: number | undefined; readonly at: number }): boolean {
    if (!this.#kind) return true;
    const { window } = stored;
    if (window !== undefined && window > (this.start ?? 0))
      this.#now = windowAt(this.#kind, this.#timeZone, window);
    return stored.at >= (this.start ?? 0);
  }
}
