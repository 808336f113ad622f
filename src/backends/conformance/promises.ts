/** One promise of the conformance suite, and the reasons for which a backend need not keep it. */
import type { BackendHarness } from './harness.ts';

export interface BackendPromise {
  readonly title: string;
  /** Why the promise does not apply to this backend, from what the backend declares; undefined where it applies. */
  readonly skipReason?: (harness: BackendHarness) => string | undefined;
  /** Rejects where the promise is broken. */
  readonly check: (harness: BackendHarness) => Promise<void>;
}

/** For promises about the memory of an executor outside of the brain's process. */
export const needsKeptResults = ({ backend }: BackendHarness): string | undefined =>
  backend.info.keepsResults ? undefined : 'it declares that results are not kept over a restart';

export const needsDiskMemory = ({ restartExecutor }: BackendHarness): string | undefined =>
  restartExecutor ? undefined : 'its executor has no memory on disk';

export const needsForeignStop = ({ stopExecutor }: BackendHarness): string | undefined =>
  stopExecutor ? undefined : 'its executor is part of the brain, and stops with it';

export const needsSharing = ({ connectOther }: BackendHarness): string | undefined =>
  connectOther ? undefined : 'its executor serves brains of one owner only';
