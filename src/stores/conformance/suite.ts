/**
 * The tests that every store must pass. A new store comes with a harness.ts; where stores may differ, the tests read
 * `store.capabilities`.
 */
import { describe, test } from 'node:test';
import type { EngineSettings } from '../../core/settings.ts';
import { ARCHIVE_PROMISES } from './archive-promises.ts';
import { BLOB_PROMISES } from './blob-promises.ts';
import { HISTORY_PROMISES } from './history-promises.ts';
import { KEPT_PROMISES } from './kept-promises.ts';
import { KEY_PROMISES } from './key-promises.ts';
import { LEASE_PROMISES } from './lease-promises.ts';
import { LEDGER_PROMISES } from './ledger-promises.ts';
import { LOG_PROMISES, replays } from './log-promises.ts';
import { NAME_PROMISES } from './name-promises.ts';
import type { RecordedEvents, StoreFixture } from './opened.ts';
import { OPENING_PROMISES } from './opening-promises.ts';

const PROMISES = [
  ...LOG_PROMISES,
  ...BLOB_PROMISES,
  ...HISTORY_PROMISES,
  ...LEDGER_PROMISES,
  ...NAME_PROMISES,
  ...LEASE_PROMISES,
  ...KEPT_PROMISES,
  ...KEY_PROMISES,
  ...OPENING_PROMISES,
  ...ARCHIVE_PROMISES,
];

export interface Recordings {
  readonly settings: Partial<EngineSettings>;
  readonly runs: readonly RecordedEvents[];
}

export function storeConformance(
  name: string,
  make: () => Promise<StoreFixture>,
  recordings: Recordings,
): void {
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
    for (const [n, recording] of recordings.runs.entries()) {
      const title = `every restart recovers the durable state (recorded run ${n + 1}, ${recording.length} events)`;
      test(title, () => show((fixture) => replays(fixture, recording, recordings.settings)));
    }
  });
}
