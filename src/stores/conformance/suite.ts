/**
 * What every store promises, shown on one after another. A store that is added comes with a harness.ts; differences that are allowed are capability data of the store.
 */
import { describe, test } from 'node:test';
import type { EngineSettings } from '../../core/settings.ts';
import { BLOB_PROMISES } from './blob-promises.ts';
import { HISTORY_PROMISES } from './history-promises.ts';
import { KEPT_PROMISES } from './kept-promises.ts';
import { LEASE_PROMISES } from './lease-promises.ts';
import { LOG_PROMISES, showStory } from './log-promises.ts';
import { NAME_PROMISES } from './name-promises.ts';
import type { StoreFixture, Story } from './opened.ts';
import { OPENING_PROMISES } from './opening-promises.ts';

const PROMISES = [
  ...LOG_PROMISES,
  ...BLOB_PROMISES,
  ...HISTORY_PROMISES,
  ...NAME_PROMISES,
  ...LEASE_PROMISES,
  ...KEPT_PROMISES,
  ...OPENING_PROMISES,
];

export interface Stories {
  readonly settings: Partial<EngineSettings>;
  readonly stories: readonly Story[];
}

export function storeConformance(name: string, make: () => Promise<StoreFixture>, stories: Stories): void {
  const show = async (run: (fixture: StoreFixture) => Promise<void>): Promise<void> => {
    const fixture = await make();
    try {
      await run(fixture);
    } finally {
      await fixture.remove();
    }
  };
  describe(`the ${name} store`, () => {
    for (const [title, run] of PROMISES) test(title, () => show(run));
    for (const [n, story] of stories.stories.entries()) {
      const title = `what was durable comes back, restart after restart (story ${n + 1}, ${story.length} events)`;
      test(title, () => show((fixture) => showStory(fixture, story, stories.settings)));
    }
  });
}
