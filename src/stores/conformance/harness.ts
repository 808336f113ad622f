/** The types of a store's harness.ts, which opens that store for the conformance suite. */
import type { Env } from '../../kit/env/env.ts';
import type { StoreFixture } from './opened.ts';

/** The means that the suite gives to a harness. */
export interface HarnessKit extends Pick<StoreFixture, 'turns' | 'within'> {
  /** The real environment, except that its timers keep no process alive. */
  readonly env: Env;
  /** Makes an empty folder. */
  folder(): { readonly path: string; remove(): Promise<void> };
  /** Makes an empty database and returns its address. */
  database(): Promise<string>;
}

/** Keyed by the title in the test report; a store that can be opened in several ways has several. */
export type Harnesses = Readonly<Record<string, (kit: HarnessKit) => Promise<StoreFixture>>>;

/** Delays writes for a test: pass() resolves at once, or after hold() once the function it returned is called. */
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
