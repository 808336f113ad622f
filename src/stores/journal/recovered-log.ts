/**
 * Passes on what a checkpoint and the log after it hold: each record once, as its last change has left it. This is what a
 * checkpoint at the end of the log would hold (docs/decisions/0044).
 *
 * G1  A closed attempt that its job no longer lists is passed on too: the index may lack its charge.
 */
import type { JobBundle, LooseRecord, Recovery } from '../../core/ports/store.ts';
import { FRESH_JOB } from '../../model/moves.ts';
import type { AskRecord, AttemptRecord, JobRecord } from '../../model/records.ts';
import { lastAttempts } from '../records.ts';
import type { CheckpointContents } from './checkpoint/line.ts';
import { type JobLines, type LastChanges, type LogLine, recordName } from './log/last-changes.ts';
import { LineParser, type LineRecord } from './log/line-parser.ts';

/** Receives what a folder holds. */
export interface FolderRecovery extends Pick<Recovery, 'job' | 'record'> {
  /** An attempt that the bundle of its job leaves out (G1), with the request and the last change of the job. */
  unlisted?(uid: string, ask: AskRecord, attempt: AttemptRecord, seq: number): void;
}

/** So much of the log is parsed at once. */
const PARSED_BYTES = 64 * 2 ** 10;

export function passOn(contents: CheckpointContents, log: LastChanges, into: FolderRecovery): void {
  const base = passOnUnchanged(contents, log, into);
  const parser = new LineParser();
  const jobs = log.jobs.entries;
  let done = 0;
  for (const [index, lines] of jobs.entries()) {
    addLines(lines, parser);
    if (parser.bytes < PARSED_BYTES && index < jobs.length - 1) continue;
    const records = parser.take();
    let from = 0;
    for (; done <= index; done++) {
      const each = jobs[done] as JobLines;
      const to = from + each.parsed;
      passOnJob(each, base.get(each.uid), records.slice(from, to), into);
      from = to;
    }
  }
  passOnOthers(contents, log, into);
}

/** Passes on the jobs of the checkpoint that the log does not change; returns the others. */
function passOnUnchanged(
  { bundles }: CheckpointContents,
  log: LastChanges,
  into: FolderRecovery,
): ReadonlyMap<string, JobBundle> {
  const changed = new Map<string, JobBundle>();
  if (bundles.length === 0) return changed;
  const names = new Set(log.jobs.entries.map(({ uid }) => uid));
  for (const bundle of bundles) {
    if (names.has(bundle.uid)) changed.set(bundle.uid, bundle);
    else into.job(bundle);
  }
  return changed;
}

/** Adds the lines of a job that are parsed, in the order in which `passOnJob` takes them. */
function addLines(lines: JobLines, parser: LineParser): void {
  const before = parser.count;
  if (lines.ask) parser.add(lines.ask);
  if (lines.job) parser.add(lines.job);
  for (const attempt of lines.attempts) if (!leavesNothing(attempt)) parser.add(attempt);
  lines.parsed = parser.count - before;
}

function passOnJob(
  lines: JobLines,
  base: JobBundle | undefined,
  records: readonly LineRecord[],
  into: FolderRecovery,
): void {
  const { uid, seq } = lines;
  let at = 0;
  const older = lines.ask ? undefined : base;
  const ask = lines.ask ? (records[at++] as AskRecord) : older?.ask;
  const job = lines.job ? (records[at++] as JobRecord) : (older?.job ?? FRESH_JOB);
  // The log may still tell of a job that left memory before the checkpoint.
  if (!ask) return;
  passOnFormer(lines, base, into);
  if (!older && at === records.length) return into.job({ uid, ask, job, attempts: [], seq });
  const byNumber = new Map((older?.attempts ?? []).map((attempt) => [attempt.n, attempt]));
  // One that leaves nothing was not parsed.
  for (const { n } of lines.attempts) byNumber.delete(n);
  for (const attempt of records.slice(at) as AttemptRecord[]) byNumber.set(attempt.n, attempt);
  const all = [...byNumber.values()];
  const attempts = lastAttempts(all);
  for (const attempt of all) if (!attempts.includes(attempt)) into.unlisted?.(uid, ask, attempt, seq);
  into.job({ uid, ask, job, attempts, seq });
}

/**
 * The attempts of former jobs with this id, and of a job before it was redriven: only their charges may be missing. A
 * job with neither request nor `base` left memory before the checkpoint, and its charges are in the index.
 */
function passOnFormer(lines: JobLines, base: JobBundle | undefined, into: FolderRecovery): void {
  const { uid, former, seq } = lines;
  if (base && lines.ask)
    for (const attempt of base.attempts) into.unlisted?.(uid, base.ask, attempt, base.seq);
  for (const { ask, attempts } of former ?? []) {
    const parser = new LineParser();
    if (ask) parser.add(ask);
    for (const line of attempts) parser.add(line);
    const records = parser.take();
    const request = ask ? (records.shift() as AskRecord) : base?.ask;
    if (!request) continue;
    for (const attempt of records) into.unlisted?.(uid, request, attempt as AttemptRecord, seq);
  }
}

/** The records that belong to no job. Failures are passed on in the order in which they were written. */
function passOnOthers({ records }: CheckpointContents, log: LastChanges, into: FolderRecovery): void {
  for (const record of records) {
    if (!log.others.has(recordName(record.kind, record.id))) into.record(record);
  }
  const parser = new LineParser();
  let names: string[] = [];
  const flush = (): void => {
    for (const [index, after] of parser.take().entries()) {
      const [kind, id] = JSON.parse(`["${names[index]}]`);
      if (after) into.record({ kind, id, after } as LooseRecord);
    }
    names = [];
  };
  for (const [name, line] of log.others) {
    parser.add(line);
    names.push(name);
    if (parser.bytes >= PARSED_BYTES) flush();
  }
  flush();
}

/** The end of such a line; with a label, which is for telemetry alone. Usage and bill would stand behind the outcome. */
const HAS_WAITED = /"outcome":"waits"(,"label":"[^"\\]*")?\},"waits"\]$/;
const END_BYTES = 160;

/**
 * Whether the line is that of an attempt which has ended by waiting, and neither used anything nor has a price: no job
 * lists it (isKept of model/kept-attempts.ts), and it has no charge. A run has one for each of its steps.
 */
const leavesNothing = ({ bytes, from, to }: LogLine): boolean =>
  HAS_WAITED.test(bytes.toString('latin1', Math.max(from, to - END_BYTES), to));
