/**
 * Migrates everything from one store to another.
 *
 * V1  The target is marked before the first record is written, and the mark goes only after everything was read
 *     back and found equal: whoever opens it in between is refused.
 * V2  A job that the target holds was written whole, so that a second try leaves it out.
 * V3  What was written from an older state of the source is never built upon.
 */
import { OrchdError } from '../../model/errors.ts';
import type { Contents, Head, LoadedJob, Target } from './contents.ts';
import { Digest, difference, type Totals } from './digest.ts';
import { loadedJobs } from './load-bodies.ts';
import { judge, type Mark, markOf } from './mark.ts';

/** A brain that is started on the source once more, and again, must stay behind the new one. */
const EPOCH_LEAP = 1000;

export interface MigrationProgress {
  readonly doing: 'copy' | 'verify';
  readonly jobs: number;
  readonly of: number;
}

export type OnProgress = (progress: MigrationProgress) => void;

export interface MigrationReport extends Totals {
  readonly from: string;
  readonly to: string;
  readonly seq: number;
  readonly epoch: number;
  /** It had been done before: nothing was written now. */
  readonly already: boolean;
}

export async function migrate(
  from: Contents,
  target: Target,
  onProgress: OnProgress,
): Promise<MigrationReport> {
  const found = await target.look();
  if (found.is === 'work') return compare(from, target, onProgress);
  const source = await from.hold();
  const mark = markOf(source.place, source.head.brain, source.head.seq);
  const keep = found.is === 'unfinished' && mayContinue(target, found.mark, mark);
  const { head } = source;
  const epoch = head.epoch + EPOCH_LEAP;
  await target.begin(mark, { ...head, epoch, brain: { ...head.brain, epoch } }, keep);
  const wanted = await copy(source, target, onProgress);
  await source.assertHeld();
  await target.seal(source.others);
  await verify(source, wanted, target, onProgress);
  await target.finish();
  return { from: source.place, to: target.place, seq: head.seq, epoch, already: false, ...wanted };
}

function mayContinue({ place }: Target, found: Mark, mark: Mark): boolean {
  const verdict = judge(found, mark);
  if (verdict !== 'foreign') return verdict === 'continue';
  const message = `${place} holds an unfinished move of another brain, from ${found.from}; finish that, or empty it`;
  throw new OrchdError('STORE_UNFINISHED', message);
}

async function copy(source: Contents, target: Target, onProgress: OnProgress): Promise<Totals> {
  const digest = new Digest();
  const tell = (): void => onProgress({ doing: 'copy', jobs: digest.jobs, of: source.jobCount });
  for await (const jobs of loadedJobs(source)) {
    await target.put(await missing(target, jobs));
    for (const job of jobs) digest.addJob(job);
    tell();
  }
  return closed(digest, source);
}

async function missing(target: Target, jobs: readonly LoadedJob[]): Promise<LoadedJob[]> {
  const there = await target.has(jobs.map(({ bundle }) => bundle.uid));
  return jobs.filter(({ bundle }) => !there.has(bundle.uid));
}

function closed(digest: Digest, { others, head }: Contents): Totals {
  for (const record of others) digest.addOther(record);
  digest.addBrain(head.brain);
  return digest.totals();
}

async function totalsOf(contents: Contents, onProgress: OnProgress): Promise<Totals> {
  const digest = new Digest();
  for await (const jobs of loadedJobs(contents)) {
    for (const job of jobs) digest.addJob(job);
    onProgress({ doing: 'verify', jobs: digest.jobs, of: contents.jobCount });
  }
  return closed(digest, contents);
}

async function verify(
  source: Contents,
  wanted: Totals,
  target: Target,
  onProgress: OnProgress,
): Promise<void> {
  const contents = await target.contents();
  try {
    const why = difference(wanted, await totalsOf(contents, onProgress)) ?? lag(source.head, contents.head);
    if (why === undefined) return;
    await target.spoil();
    const message = `${target.place} does not hold what ${source.place} holds (${why}); it stays unfinished`;
    throw new OrchdError('STORE_UNFINISHED', message);
  } finally {
    await contents.close();
  }
}

function lag(source: Head, target: Head): string | undefined {
  if (target.seq < source.seq) return `change ${target.seq} instead of ${source.seq}`;
  return target.epoch > source.epoch ? undefined : `epoch ${target.epoch}, not above ${source.epoch}`;
}

/** A target with work in it is left as it is; where that work is the result of this very move, all is done. */
async function compare(source: Contents, target: Target, onProgress: OnProgress): Promise<MigrationReport> {
  const report = await asMoved(source, target, onProgress);
  if (report) return report;
  const message = `${target.place} holds work already; nothing was changed. Name a place that is empty`;
  throw new OrchdError('INVALID_PARAMS', message);
}

async function asMoved(
  source: Contents,
  target: Target,
  onProgress: OnProgress,
): Promise<MigrationReport | undefined> {
  const contents = await target.contents();
  try {
    const { seq, epoch, brain } = contents.head;
    if (brain.owner !== source.head.brain.owner || lag(source.head, contents.head)) return undefined;
    const wanted = await totalsOf(source, onProgress);
    if (difference(wanted, await totalsOf(contents, onProgress))) return undefined;
    return { from: source.place, to: target.place, seq, epoch, already: true, ...wanted };
  } finally {
    await contents.close();
  }
}
