/** Opens a data folder on any disk as a brain would, without a brain: the records and what was warned of. */
import type { StoreEvents } from '../../src/core/ports/store.ts';
import type { State } from '../../src/core/state/state.ts';
import type { Disk, Env } from '../../src/kit/env/env.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { openInto } from '../../src/runtime/open-store.ts';
import { InlineBackground } from '../../src/stores/journal/background.ts';
import { MemoryHistory } from '../../src/stores/journal/history/memory.ts';
import { JournalStore } from '../../src/stores/journal/journal.ts';
import { NOW, newState } from './folder-maker.ts';

const YEAR_MS = 365 * 24 * 3600_000;
/** Longer than any test, and no longer than setTimeout can wait. */
const NEVER_MS = 2 ** 31 - 1;
/** Small, so that thousands of openings cost little. */
const LIMITS = {
  minSegmentBytes: 8192,
  maxSegmentBytes: 8192,
  maxFrameBytes: 4096,
  maxPendingBytes: 2 ** 20,
};

export interface Opened {
  readonly store: JournalStore;
  readonly state: State;
  readonly warnings: readonly string[];
  /** Resolves when this change is durable. */
  durable(seq: number): Promise<void>;
}

export async function openStore(disk: Disk, folder = '/data'): Promise<Opened> {
  const env: Env = { ...realEnv(), disk };
  const state = newState();
  const warnings: string[] = [];
  const waiting = new Map<number, () => void>();
  const store = new JournalStore(env, {
    folder,
    checkpointIntervalMs: NEVER_MS,
    historyMs: YEAR_MS,
    auditMs: YEAR_MS,
    auditBytes: 2 ** 30,
    limits: LIMITS,
    background: (paths) => new InlineBackground(disk, paths, new MemoryHistory()),
    onWarning: (warning) => warnings.push(warning),
  });
  const events: StoreEvents = {
    durable: (seq) => {
      waiting.get(seq)?.();
    },
    indexed: () => undefined,
    space: () => undefined,
    failed: (error) => {
      throw error;
    },
    ask: (uid) => state.jobs.get(uid)?.ask,
  };
  await openInto(state, store, events, NOW);
  const durable = (seq: number): Promise<void> => new Promise((resolve) => waiting.set(seq, resolve));
  return { store, state, warnings, durable };
}
