/** The progress of a command: a line that is overwritten on a terminal, and a new line now and then elsewhere. */
import type { Terminal } from '../command.ts';

const REDRAW_MS = 100;
const REPEAT_MS = 5000;
const BAR_CHARS = 10;

export class Meter {
  readonly #terminal: Terminal;
  #drawnAt: number;
  #last: string | undefined;
  #isShown = false;

  constructor(terminal: Terminal) {
    this.#terminal = terminal;
    // Without a status line that is redrawn, each text is a line of its own: the first one waits, so that a short command
    // prints none.
    this.#drawnAt = terminal.showsStatus ? Number.NEGATIVE_INFINITY : performance.now();
  }

  /** Shows a text, unless the last one was shown a moment ago; `text` is called only if it is needed. */
  update(text: () => string): void {
    const now = performance.now();
    if (now - this.#drawnAt < (this.#terminal.showsStatus ? REDRAW_MS : REPEAT_MS)) return;
    const shown = text();
    // Without a status line, a text that has not changed is not printed again.
    if (!this.#terminal.showsStatus && shown === this.#last) return;
    this.#drawnAt = now;
    this.#last = shown;
    if (!this.#terminal.showsStatus) return this.#terminal.complain(shown);
    this.#terminal.status(shown);
    this.#isShown = true;
  }

  /** Says something that stays, above the line that is overwritten. */
  say(text: string): void {
    this.clear();
    this.#terminal.complain(text);
  }

  clear(): void {
    if (!this.#isShown) return;
    this.#terminal.status();
    this.#isShown = false;
    this.#drawnAt = Number.NEGATIVE_INFINITY;
  }
}

/** `[####......]`; `share` from 0 to 1. */
export function bar(share: number): string {
  const filled = Math.floor(Math.min(1, Math.max(0, share)) * BAR_CHARS);
  return `[${'#'.repeat(filled)}${'.'.repeat(BAR_CHARS - filled)}]`;
}

export const counted = (count: number, thing: string): string =>
  `${count.toLocaleString('en')} ${thing}${count === 1 ? '' : 's'}`;

/** `1 of 2 jobs has not ended`. */
export const liveText = (live: number, jobs: number): string =>
  `${live.toLocaleString('en')} of ${counted(jobs, 'job')} ${live === 1 ? 'has' : 'have'} not ended`;

/** `120/s`; empty where nothing can be said. */
export function rateText(count: number, ms: number): string {
  if (count <= 0 || ms < 500) return '';
  const perSec = (count * 1000) / ms;
  return `${perSec < 10 ? perSec.toFixed(1) : Math.round(perSec).toLocaleString('en')}/s`;
}
