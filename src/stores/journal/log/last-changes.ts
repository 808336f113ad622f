/**
 * Finds the last change of every record in the log without parsing the others: a change holds the whole record as it is
 * from then on, so earlier ones have no effect on what is recovered. Kind and id stand at the begin of a line (codec.ts).
 *
 * L1  Lines are kept as bytes of the frames that they were read from. Where frames hold far more than these lines, the
 *     lines are copied and the frames let go: the memory for them is bounded by the records, not by the log.
 */
import { OrchdError } from '../../../model/errors.ts';
import { UidTable } from './uid-table.ts';

/** A line of the log, without its line feed. */
export interface LogLine {
  bytes: Buffer;
  from: number;
  to: number;
}

export interface AttemptLine extends LogLine {
  readonly n: number;
}

export interface FormerLines {
  /** Undefined where the log begins after the admission of the job. */
  readonly ask: LogLine | undefined;
  readonly attempts: readonly AttemptLine[];
}

/** The last changes of a job and its attempts. */
export interface JobLines {
  readonly uid: string;
  readonly hash: number;
  /** Undefined where the log begins after the admission of the job. */
  ask: LogLine | undefined;
  /** Changes before the last admission count no more. */
  job: LogLine | undefined;
  attempts: AttemptLine[];
  /** The last change of the job or its attempts. */
  seq: number;
  /** How many of these lines are parsed. Written by recovered-log.ts. */
  parsed: number;
  /** The attempts of former jobs with the same id, or of this job before it was redriven. */
  former: FormerLines[] | undefined;
}

const FRAMES_BYTES = 256 * 2 ** 20;
const COPY_BYTES = 2 ** 20;

/** The attempts of every job that was not tried. Never written to. */
const NONE: AttemptLine[] = [];

const NEWLINE = 0x0a;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const ZERO = 0x30;

/** How the lines of these kinds begin; the id follows. */
const ASK = Buffer.from('["ask","');
const JOB = Buffer.from('["job","');
const ATTEMPT = Buffer.from('["attempt","');

export class LastChanges {
  /** The id of a job ends with a quote; that of an attempt has a colon and the number behind it. */
  readonly jobs = new UidTable<JobLines>(newJob);
  /** The other records, by `recordName`, in the order of their last changes. */
  readonly others = new Map<string, LogLine>();
  readonly #framesBytes: number;
  #bytes = 0;
  #maxBytes: number;

  constructor(framesBytes = FRAMES_BYTES) {
    this.#framesBytes = framesBytes;
    this.#maxBytes = framesBytes;
  }

  /** Takes the changes of a frame, `count` by its header. */
  add(payload: Buffer, firstSeq: number, count: number): void {
    let seq = firstSeq;
    let from = 0;
    for (; from < payload.length; seq++) {
      const to = payload.indexOf(NEWLINE, from);
      if (to < 0) break;
      this.#addLine(payload, from, to, seq);
      from = to + 1;
    }
    if (seq - firstSeq !== count || from !== payload.length) throw wrongCount(count, seq - firstSeq);
    this.#bytes += payload.length;
    if (this.#bytes > this.#maxBytes) this.#copyLines();
  }

  #addLine(bytes: Buffer, from: number, to: number, seq: number): void {
    if (isKind(bytes, from, JOB)) this.#addJob(bytes, from, to, seq);
    else if (isKind(bytes, from, ATTEMPT)) this.#addAttempt(bytes, from, to, seq);
    else if (isKind(bytes, from, ASK)) this.#addAsk(bytes, from, to, seq);
    else this.#addOther(bytes, from, to);
  }

  #addAsk(bytes: Buffer, from: number, to: number, seq: number): void {
    const job = this.jobs.at(bytes, from + ASK.length, to);
    if (job.attempts.length > 0) {
      job.former ??= [];
      job.former.push({ ask: job.ask, attempts: job.attempts });
    }
    job.ask = { bytes, from, to };
    job.job = undefined;
    job.attempts = NONE;
    job.seq = seq;
  }

  #addJob(bytes: Buffer, from: number, to: number, seq: number): void {
    const job = this.jobs.at(bytes, from + JOB.length, to);
    if (job.job) setLine(job.job, bytes, from, to);
    else job.job = { bytes, from, to };
    job.seq = seq;
  }

  #addAttempt(bytes: Buffer, from: number, to: number, seq: number): void {
    const job = this.jobs.at(bytes, from + ATTEMPT.length, to);
    let n = 0;
    for (let at = from + ATTEMPT.length + job.uid.length + 1; at < to && bytes[at] !== QUOTE; at++)
      n = n * 10 + (bytes[at] as number) - ZERO;
    const known = findNumber(job.attempts, n);
    if (known) setLine(known, bytes, from, to);
    else if (job.attempts === NONE) job.attempts = [{ bytes, from, to, n }];
    else job.attempts.push({ bytes, from, to, n });
    job.seq = seq;
  }

  #addOther(bytes: Buffer, from: number, to: number): void {
    let end = bytes.indexOf(QUOTE, from + 2) + ',"'.length;
    do end = bytes.indexOf(QUOTE, end + 1);
    while (end >= 0 && end < to && isEscaped(bytes, end));
    if (end < 0 || end >= to) throw new OrchdError('STORE_CORRUPT', 'a change has no kind and id');
    const name = bytes.toString('utf8', from + 2, end + 1);
    // Deleted first, so that a rewritten record moves to the end.
    this.others.delete(name);
    this.others.set(name, { bytes, from, to });
  }

  #copyLines(): void {
    let copy = Buffer.alloc(0);
    let used = 0;
    let sum = 0;
    for (const line of this.#lines()) {
      const size = line.to - line.from;
      if (used + size > copy.length) {
        copy = Buffer.allocUnsafeSlow(Math.max(COPY_BYTES, size));
        used = 0;
      }
      line.bytes.copy(copy, used, line.from, line.to);
      setLine(line, copy, used, used + size);
      used += size;
      sum += size;
    }
    this.#bytes = sum;
    this.#maxBytes = sum + Math.max(sum, this.#framesBytes);
  }

  *#lines(): Generator<LogLine> {
    for (const { ask, job, attempts, former } of this.jobs.entries) {
      if (ask) yield ask;
      if (job) yield job;
      yield* attempts;
      for (const each of former ?? []) {
        if (each.ask) yield each.ask;
        yield* each.attempts;
      }
    }
    yield* this.others.values();
  }
}

/** The key of a record in `others`: kind and id as they stand in its line. */
export const recordName = (kind: string, id: string): string => `${kind}",${JSON.stringify(id)}`;

const newJob = (uid: string, hash: number): JobLines => ({
  uid,
  hash,
  ask: undefined,
  job: undefined,
  attempts: NONE,
  seq: 0,
  parsed: 0,
  former: undefined,
});

/** Numbers of attempts grow, and most changes are of the last one: a run may have thousands. */
function findNumber(attempts: readonly AttemptLine[], n: number): AttemptLine | undefined {
  const last = attempts.at(-1);
  return last === undefined || last.n < n ? undefined : attempts.findLast((attempt) => attempt.n === n);
}

function setLine(line: LogLine, bytes: Buffer, from: number, to: number): void {
  line.bytes = bytes;
  line.from = from;
  line.to = to;
}

function isKind(bytes: Buffer, from: number, begin: Buffer): boolean {
  for (let at = 2; at < begin.length; at++) if (bytes[from + at] !== begin[at]) return false;
  return true;
}

/** Whether an odd number of backslashes stands before the quote. */
function isEscaped(bytes: Buffer, quote: number): boolean {
  let at = quote - 1;
  while (bytes[at] === BACKSLASH) at--;
  return (quote - at) % 2 === 0;
}

const wrongCount = (count: number, found: number): OrchdError =>
  new OrchdError('STORE_CORRUPT', `the frame header says ${count} changes, its payload has ${found}`);
