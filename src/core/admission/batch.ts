/**
 * Batches: jobs that were submitted together. A batch begins with its first job, and counts the ends of its jobs
 * (docs/decisions/0027).
 */

import type { BatchRecord } from '../../model/batch-record.ts';
import type { Cause } from '../../model/causes.ts';
import { type Labels, scoped } from '../../model/records.ts';
import type { EndState } from '../../model/states.ts';
import type { JobEntry } from '../state/job-entry.ts';
import type { Turn } from '../turn.ts';

/** Beyond this number, of the tenant that has the most, the batch that was changed the longest ago and has no live job gives way. */
export const MAX_BATCHES = 100_000;
/** Batches that are looked at to find one that may give way, and the most that one purge deletes. */
const MAX_VISITED = 1000;

const NO_ENDS: BatchRecord['ended'] = { succeeded: 0, dead: 0, cancelled: 0 };

export interface BatchRequest {
  readonly tenant: string;
  readonly id: string;
  readonly name?: string | undefined;
  readonly tags?: Labels | undefined;
}

/** Creates a batch, or gives an existing one this name and these tags. */
export function putBatch(turn: Turn, { tenant, id, name, tags }: BatchRequest): BatchRecord {
  const known = turn.state.batches.of(tenant, id);
  const after = known
    ? { ...known, name: name ?? known.name, tags: tags ?? known.tags }
    : newBatch(turn, tenant, id, name, tags);
  put(turn, after, known ? 'changed' : 'begun');
  return after;
}

/** The first job of a batch creates it. */
export function beginBatch(turn: Turn, tenant: string, id: string | undefined): void {
  if (id === undefined || turn.state.batches.of(tenant, id)) return;
  put(turn, newBatch(turn, tenant, id), 'begun');
}

function newBatch(turn: Turn, tenant: string, id: string, name?: string, tags?: Labels): BatchRecord {
  const { batches } = turn.state;
  if (batches.size >= MAX_BATCHES) displaceOne(turn);
  return { v: 1, tenant, id, name, tags, createdAt: turn.now, at: turn.now, ended: NO_ENDS };
}

function displaceOne(turn: Turn): void {
  const { batches } = turn.state;
  let visited = 0;
  for (const name of batches.ofLargestTenant()) {
    const record = batches.get(name);
    if (visited++ === MAX_VISITED) return;
    if (!record || batches.isLive(record.tenant, record.id)) continue;
    turn.put('batch', name, null, 'displaced');
    return;
  }
}

/** The ends of jobs in one turn, by batch; they are added to the records once, at the end of the turn. */
export type BatchEnds = Map<string, { readonly tenant: string; readonly id: string; readonly by: Counts }>;

type Counts = { -readonly [K in EndState]: number };

export function noteBatchEnd(ends: BatchEnds, { ask, job }: JobEntry): void {
  const { batch: id } = ask.spec;
  if (id === undefined) return;
  const name = scoped(ask.tenant, id);
  const known = ends.get(name) ?? { tenant: ask.tenant, id, by: { ...NO_ENDS } };
  known.by[job.state as EndState]++;
  ends.set(name, known);
}

export function countEnds(turn: Turn, ends: BatchEnds): void {
  for (const { tenant, id, by } of ends.values()) addEnds(turn, tenant, id, by, 'used');
  ends.clear();
}

/** A dead job of a batch lives again. */
export function noteRedriven(turn: Turn, { ask }: JobEntry): void {
  const { batch: id } = ask.spec;
  if (id === undefined) return;
  beginBatch(turn, ask.tenant, id);
  addEnds(turn, ask.tenant, id, { ...NO_ENDS, dead: -1 }, 'redrive');
}

function addEnds(turn: Turn, tenant: string, id: string, by: Counts, cause: Cause): void {
  const known = turn.state.batches.of(tenant, id);
  if (!known) return;
  const ended = {
    succeeded: known.ended.succeeded + by.succeeded,
    // A batch that was purged and is needed again has lost its counts.
    dead: Math.max(0, known.ended.dead + by.dead),
    cancelled: known.ended.cancelled + by.cancelled,
  };
  put(turn, { ...known, at: turn.now, ended }, cause);
}

/** Deletes batches whose jobs have all ended, and last before `endedBefore`. */
export function purgeBatches(turn: Turn, endedBefore: number): void {
  const { batches } = turn.state;
  let visited = 0;
  for (const [name, { tenant, id, at }] of batches.entries()) {
    if (at >= endedBefore || visited++ === MAX_VISITED) return;
    if (!batches.isLive(tenant, id)) turn.put('batch', name, null, 'purge');
  }
}

function put(turn: Turn, record: BatchRecord, cause: Cause): void {
  turn.put('batch', scoped(record.tenant, record.id), record, cause);
}
