import type { StoreFixture } from './opened.ts';

/** What every store promises, and how it is shown. */
export type Promised = readonly [title: string, show: (fixture: StoreFixture) => Promise<void>];
