/** Builds a state from a store as a brain does, without a brain, and describes it. */

import { Restore } from '../../src/core/restore.ts';
import { bundleOf } from '../../src/core/state/job-entry.ts';
import type { State } from '../../src/core/state/state.ts';
import type { Disk } from '../../src/kit/env/env.ts';
import { SMALL_KINDS } from '../../src/model/records.ts';
import * as hash from '../../src/stores/journal/doctor/state-hash.ts';
import type { Paths } from '../../src/stores/journal/layout.ts';
import * as journal from '../../src/stores/journal/recover.ts';
import { type OtherRecord, Records } from '../../src/stores/records.ts';

/** Fills a state from a data folder that nobody opens; ended jobs stay. */
export async function recover(
  disk: Disk,
  paths: Paths,
  state: State,
  now: number,
): Promise<journal.RecoveredFolder> {
  const restore = new Restore(state, now);
  const read = await journal.recover(disk, paths, restore);
  restore.finish({ seq: read.end.nextSeq - 1, at: read.end.at, indexedUpTo: 0 });
  return read;
}

export function recordsOf(state: State): Records {
  const records = new Records();
  for (const entry of state.jobs.values()) records.job(bundleOf(entry));
  for (const [id, after] of state.failures) records.record({ kind: 'failure', id, after });
  for (const { id, record } of state.leases.all()) records.record({ kind: 'lease', id, after: record });
  for (const kind of SMALL_KINDS) {
    for (const [id, after] of state.tables[kind].entries())
      records.record({ kind, id, after } as OtherRecord);
  }
  records.brain = state.brain;
  records.seq = state.seq;
  return records;
}

export const stateHash = (state: State, scope?: hash.HashScope): string =>
  hash.stateHash(recordsOf(state), scope);
