/** What the harness.ts of a store is made of: it opens its store for the one suite. */
import type { Env } from '../../kit/env/env.ts';
import type { StoreFixture } from './opened.ts';

/** What a harness gets from the suite. */
export interface HarnessKit extends Pick<StoreFixture, 'turns' | 'within'> {
  /** The real one, with timers that keep no process alive. */
  readonly env: Env;
  /** A new folder, and how to remove it. */
  folder(): { readonly path: string; remove(): Promise<void> };
  /** The address of a new database. */
  database(): Promise<string>;
}

/** By the name under which the suite shows them: a store may be opened in several ways. */
export type Harnesses = Readonly<Record<string, (kit: HarnessKit) => Promise<StoreFixture>>>;

/** Lets everything through until it is held. */
export class Gate {
  #open: Promise<void> = Promise.resolve();

  hold(): () => void {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#open = promise;
    return resolve;
  }

  pass(): Promise<void> {
    return this.#open;
  }
}
