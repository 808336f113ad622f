/**
 * Finds the processes that commands have left behind, by the mark in their environment. One look at all processes of the
 * machine serves every command that has ended meanwhile, and looks take a fifth of one core at most.
 */
import { processesBy } from '../../../kit/process/identity.ts';
import { MARK_VARIABLE } from './layout.ts';

const REST_PER_LOOK = 4;

export class Leftovers {
  readonly #waiting = new Map<string, ((pids: readonly number[]) => void)[]>();
  #isDue = false;
  #restUntil = 0;

  /** The processes with this mark, by a look that begins after the call. */
  find(mark: string): Promise<readonly number[]> {
    return new Promise((resolve) => {
      const others = this.#waiting.get(mark);
      if (others) others.push(resolve);
      else this.#waiting.set(mark, [resolve]);
      if (this.#isDue) return;
      this.#isDue = true;
      const restMs = this.#restUntil - performance.now();
      if (restMs > 1) setTimeout(() => this.#look(), restMs);
      else setImmediate(() => this.#look());
    });
  }

  #look(): void {
    const before = process.threadCpuUsage();
    const found = processesBy(MARK_VARIABLE);
    const { user, system } = process.threadCpuUsage(before);
    this.#restUntil = performance.now() + ((user + system) / 1000) * REST_PER_LOOK;
    this.#isDue = false;
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const [mark, resolves] of waiting) for (const resolve of resolves) resolve(found.get(mark) ?? []);
  }
}
