import type { StoreFixture } from './opened.ts';

/** A promise of every store: its text, which is the title of a test, and the code that tests it. */
export type StorePromise = readonly [title: string, show: (fixture: StoreFixture) => Promise<void>];
