import type { BackendHarness } from './harness.ts';

/** What every backend promises, and how it is shown. */
export interface BackendPromise {
  readonly title: string;
  /** Says why this backend does not give the promise, from what it declares; undefined where it does. */
  readonly isNotGiven?: (harness: BackendHarness) => string | undefined;
  readonly show: (harness: BackendHarness) => Promise<void>;
}

/** For promises about what an executor outside of the brain's process remembers. */
export const needsKeptResults = ({ backend }: BackendHarness): string | undefined =>
  backend.info.keepsResults ? undefined : 'it declares that results are not kept over a restart';

export const needsDiskMemory = ({ restartExecutor }: BackendHarness): string | undefined =>
  restartExecutor ? undefined : 'its executor has no memory on disk';

export const needsSharing = ({ connectOther }: BackendHarness): string | undefined =>
  connectOther ? undefined : 'its executor serves brains of one owner only';
