/** The slots that the jobs of this brain use. The jobs of others wait in the same spool, and are not counted. */
import { locateJobs } from '../../spool/locate.ts';
import type { Spool } from '../../spool/spool.ts';
import { isEndPlace } from './token-state.ts';

export class UsedSlots {
  readonly #spool: Spool;
  readonly #isOffered: (name: string) => boolean;
  /** Jobs that had not ended when they were last looked at. */
  readonly #open = new Set<string>();

  /** `isOffered`: whether the job of this name is being placed. */
  constructor(spool: Spool, isOffered: (name: string) => boolean) {
    this.#spool = spool;
    this.#isOffered = isOffered;
  }

  /** Takes a slot for a job that is going to be placed; false where none of `slots` is free. */
  async take(name: string, slots: number): Promise<boolean> {
    if (!this.#open.has(name) && this.#open.size >= slots) await this.#recount();
    if (!this.#open.has(name) && this.#open.size >= slots) return false;
    this.#open.add(name);
    return true;
  }

  /** A job that has not ended uses a slot, whoever has placed it. */
  note(name: string): void {
    this.#open.add(name);
  }

  /** Frees the slots of jobs that have ended, or were never placed. */
  async #recount(): Promise<void> {
    const located = await locateJobs(this.#spool, this.#open);
    for (const name of [...this.#open]) {
      const job = located.get(name);
      if (!this.#isOffered(name) && (!job || isEndPlace(job.place))) this.#open.delete(name);
    }
  }
}
