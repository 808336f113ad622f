/**
 * Replays every change that is still in the log and checks that each was allowed.
 *
 * R1  A job or an attempt changes its state only along the transition tables; a closed one does not change at all.
 * R2  Attempt numbers only grow, for one job id for ever; one attempt is open at a time; a token has one backend.
 * R3  A key belongs to one live job of a tenant at a time.
 * R4  A change refers to a job that exists. This can be checked only once the replay knows all jobs (#complete): from
 *     the beginning of the log or from a checkpoint on. Before that, the first change to a job is accepted.
 * R5  A dead job that has left memory is redriven by writing its ask and its ended attempts again, as they were in the
 *     history, with the cause `redrive`. These changes begin neither a job nor an attempt.
 */
import type { JobBundle } from '../../../core/ports/store.ts';
import { stableHash } from '../../../kit/hash.ts';
import { causeName } from '../../../model/causes.ts';
import { FRESH_JOB } from '../../../model/moves.ts';
import {
  type AskRecord,
  type AttemptRecord,
  type BrainRecord,
  type Change,
  type JobRecord,
  logOwner,
  scoped,
  tokenOf,
} from '../../../model/records.ts';
import { isOpen, isTerminal, mayMoveAttempt, mayMoveJob } from '../../../model/states.ts';
import { isEnded } from '../../records.ts';
import type { LogFrame } from '../log/segments.ts';
import type { Generation } from './checkpoint.ts';
import type { LogConsumer } from './log.ts';
import type { CheckId, Report } from './report.ts';

const existing = (attempt: number): string => `attempt ${attempt} already exists`;

/** A job in its state after the changes replayed so far. */
interface KnownJob {
  ask: AskRecord | undefined;
  job: JobRecord | undefined;
  /** The last attempt since the job's admission or redrive. */
  last: AttemptRecord | undefined;
  /** The highest attempt number ever seen under this id. */
  highest: number;
}

export class Replay implements LogConsumer {
  readonly #report: Report;
  /** Checkpoints that the replay has not reached yet, oldest first. */
  readonly #checkpointsAhead: Generation[];
  #jobs = new Map<string, KnownJob>();
  #liveKeys = new Map<string, string>();
  #brain: BrainRecord | undefined;
  /** Every existing job is in #jobs; see R4. */
  #complete: boolean;
  /** The last replayed change; undefined at the start and after a gap, until the next frame says it. */
  #seq: number | undefined;
  /** The payload checksum of the last frame, which the manifest of a checkpoint repeats; undefined where #seq is not known. */
  #chain: number | undefined;
  /** The position of the frame that is replayed, for findings; empty after the last one. */
  #position = '';
  frames = 0;
  changes = 0;

  constructor(report: Report, generations: readonly Generation[], fromTheBeginning: boolean) {
    this.#report = report;
    this.#checkpointsAhead = generations
      .filter(({ contents }) => contents !== undefined)
      .sort((a, b) => a.manifest.seq - b.manifest.seq);
    this.#complete = fromTheBeginning;
    this.#seq = fromTheBeginning ? 0 : undefined;
  }

  frame({ header, segment, position }: LogFrame, changes: readonly Change[]): void {
    this.#position = `log/${segment}:${position}`;
    this.#seq ??= header.firstSeq - 1;
    this.#compareWithCheckpoints(header.chain);
    for (const change of changes) this.#apply(change);
    if (this.#brain && header.epoch < this.#brain.epoch) {
      this.#bad(
        'log.epoch',
        `a frame has epoch ${header.epoch}, but the brain was at epoch ${this.#brain.epoch}`,
      );
    }
    this.#seq = header.firstSeq + header.count - 1;
    this.#chain = header.payloadCrc;
    this.frames++;
    this.changes += header.count;
  }

  gap(): void {
    // The missing changes may have altered any job, so everything known is dropped.
    this.#jobs = new Map();
    this.#liveKeys = new Map();
    this.#complete = false;
    this.#seq = undefined;
    this.#chain = undefined;
  }

  /** Checks the final state of all jobs; if `isWhole` is false the log is damaged and its final state is not known. */
  finish(isWhole: boolean): void {
    // A log without any change agrees with the newest checkpoint.
    this.#seq ??= this.#checkpointsAhead.at(-1)?.manifest.seq;
    this.#compareWithCheckpoints(undefined);
    if (!isWhole) return;
    this.#position = '';
    for (const [uid, { job, last }] of this.#jobs) {
      if (!job) continue;
      const open = last !== undefined && isOpen(last.state) ? last : undefined;
      const hasNone = job.state === 'queued' || job.state === 'waiting';
      if (hasNone && open) {
        this.#bad('jobs', `"${uid}" is ${job.state} while its attempt ${open.n} is still open`);
      } else if (job.state === 'failed') {
        this.#bad('jobs', `"${uid}" is left in "failed", a state that a job must leave in the same commit`);
      } else if (!isTerminal(job.state) && !hasNone && !open && this.#complete) {
        this.#bad('jobs', `"${uid}" is ${job.state} without an open attempt`);
      }
    }
  }

  #apply(change: Change): void {
    const isRestored = causeName(change.cause) === 'redrive';
    switch (change.kind) {
      case 'ask':
        if (change.after && isRestored) this.#restoreAsk(change.id, change.after);
        else if (change.after) this.#applyAsk(change.id, change.after);
        return;
      case 'job':
        if (change.after) this.#applyJob(change.id, change.after);
        return;
      case 'attempt':
        if (change.after && isRestored) this.#restoreAttempt(change.id, change.after);
        else if (change.after) this.#applyAttempt(change.id, change.after);
        return;
      case 'brain':
        if (change.after) this.#setBrain(change.after);
        return;
      default:
        return;
    }
  }

  #applyAsk(uid: string, ask: AskRecord): void {
    const former = this.#jobs.get(uid);
    if (former?.job && !isTerminal(former.job.state)) {
      this.#bad('moves', `"${uid}" was admitted again while it was ${former.job.state}`);
    }
    if (former?.last && isOpen(former.last.state)) {
      this.#bad('attempts', `"${uid}" was admitted again while its attempt ${former.last.n} was open`);
    }
    const highest = former?.highest ?? 0;
    this.#jobs.set(uid, { ask, job: FRESH_JOB, last: undefined, highest });
    this.#takeKey(uid, ask);
  }

  /** The ask of a redriven job (R5). The job itself stays dead until the change of its own record, which follows. */
  #restoreAsk(uid: string, ask: AskRecord): void {
    const known = this.#jobs.get(uid);
    // Its end may be in a segment that retention has deleted, or in none because the checkpoint dropped it.
    if (!known) {
      this.#jobs.set(uid, { ask, job: undefined, last: undefined, highest: 0 });
      return;
    }
    if (known.job && known.job.state !== 'dead') {
      this.#bad('moves', `"${uid}" was restored for a redrive while it was ${known.job.state}`);
    }
    if (known.last && isOpen(known.last.state)) {
      this.#bad('attempts', `"${uid}" was restored for a redrive while its attempt ${known.last.n} was open`);
    }
    if (known.ask && stableHash(known.ask) !== stableHash(ask)) {
      this.#bad('jobs', `"${uid}" was restored for a redrive with another ask than it had`);
    }
    known.ask = ask;
  }

  /** An ended attempt of a redriven job (R5). */
  #restoreAttempt(token: string, after: AttemptRecord): void {
    const uid = after.job;
    const known = this.#jobs.get(uid);
    if (token !== tokenOf(uid, after.n)) {
      this.#bad('attempts', `attempt ${after.n} of "${uid}" is filed under "${token}"`);
    }
    if (!known) return this.#bad('jobs', `attempt ${after.n} belongs to "${uid}", which does not exist`);
    if (isOpen(after.state)) this.#bad('moves', `${token} was restored as ${after.state}`);
    const isLast = known.last?.n === after.n;
    if (isLast && stableHash(known.last) !== stableHash(after)) {
      this.#bad('attempts', `${token} was restored as another attempt than it was`);
    } else if (known.job && after.n > known.highest) {
      this.#bad('attempts', `${token} was restored, but never began`);
    }
    if (after.n >= (known.last?.n ?? 0)) known.last = after;
    known.highest = Math.max(known.highest, after.n);
  }

  #applyJob(uid: string, after: JobRecord): void {
    const known = this.#jobs.get(uid);
    if (!known && this.#complete) return this.#bad('jobs', `a change to "${uid}", which does not exist`);
    if (known?.job) this.#checkMove(uid, known.job, after);
    this.#checkEnd(uid, after);
    const isClaim = after.state === 'claimed' && known?.job?.state !== 'claimed';
    if (isClaim && known && after.attempt <= known.highest) {
      this.#bad(
        'attempts',
        `"${uid}" was claimed as attempt ${after.attempt}, but ${existing(known.highest)}`,
      );
    }
    const wasLive = known?.job !== undefined && !isTerminal(known.job.state);
    const next = known ?? { ask: undefined, job: undefined, last: undefined, highest: 0 };
    next.job = after;
    next.highest = Math.max(next.highest, after.attempt);
    this.#jobs.set(uid, next);
    if (!next.ask) return;
    if (isTerminal(after.state)) this.#freeKey(uid, next.ask);
    else if (!wasLive) this.#takeKey(uid, next.ask);
  }

  #checkMove(uid: string, before: JobRecord, after: JobRecord): void {
    if (after.attempt < before.attempt) {
      this.#bad('attempts', `"${uid}" went back from attempt ${before.attempt} to ${after.attempt}`);
    }
    const stays = before.state === after.state && !isTerminal(after.state);
    if (stays || mayMoveJob(before.state, after.state)) return;
    this.#bad('moves', `"${uid}" moved from ${before.state} to ${after.state}`);
  }

  #checkEnd(uid: string, { state, endedAt }: JobRecord): void {
    if (isTerminal(state) === (endedAt !== undefined)) return;
    this.#bad(
      'jobs',
      `"${uid}" is ${state}, but has ${endedAt === undefined ? 'no end time' : 'an end time'}`,
    );
  }

  #applyAttempt(token: string, after: AttemptRecord): void {
    const uid = after.job;
    if (token !== tokenOf(uid, after.n)) {
      this.#bad('attempts', `attempt ${after.n} of "${uid}" is filed under "${token}"`);
    }
    let known = this.#jobs.get(uid);
    if (!known) {
      if (this.#complete)
        return this.#bad('jobs', `attempt ${after.n} belongs to "${uid}", which does not exist`);
      known = { ask: undefined, job: undefined, last: undefined, highest: after.n };
      this.#jobs.set(uid, known);
    } else if (known.last?.n === after.n) {
      this.#checkAttemptMove(token, known.last, after);
    } else {
      this.#checkNewAttempt(token, known, after);
    }
    known.last = after;
    known.highest = Math.max(known.highest, after.n);
  }

  #checkAttemptMove(token: string, before: AttemptRecord, after: AttemptRecord): void {
    if (before.backend !== after.backend) {
      this.#bad('attempts', `${token} went from backend "${before.backend}" to "${after.backend}"`);
    }
    const stays = before.state === after.state && isOpen(after.state);
    if (stays || mayMoveAttempt(before.state, after.state)) return;
    this.#bad('moves', `${token} moved from ${before.state} to ${after.state}`);
  }

  #checkNewAttempt(token: string, known: KnownJob, after: AttemptRecord): void {
    const { last, job, highest } = known;
    if (last && isOpen(last.state)) {
      this.#bad('attempts', `${token} began while attempt ${last.n} was open`);
    }
    // The job's own record was claimed first, so `highest` already includes this attempt's number.
    if (after.n < highest || after.n <= (last?.n ?? 0)) {
      this.#bad('attempts', `${token} began, but ${existing(highest)}`);
    } else if (job && job.attempt !== after.n) {
      this.#bad('attempts', `${token} began, but its job is at attempt ${job.attempt}`);
    }
    if (this.#complete && after.state !== 'intended') this.#bad('moves', `${token} began as ${after.state}`);
  }

  #setBrain(after: BrainRecord): void {
    const before = this.#brain;
    if (before && after.epoch < before.epoch) {
      this.#bad('log.epoch', `the brain went back from epoch ${before.epoch} to ${after.epoch}`);
    }
    if (before && logOwner(after) !== logOwner(before)) {
      this.#bad('log.epoch', `the owner changed from ${before.owner} to ${after.owner}`);
    }
    this.#brain = after;
  }

  #takeKey(uid: string, ask: AskRecord): void {
    if (ask.spec.key === undefined) return;
    const key = scoped(ask.tenant, ask.spec.key);
    const holder = this.#liveKeys.get(key);
    if (holder !== undefined && holder !== uid) {
      this.#bad('keys', `"${uid}" and "${holder}" were alive at once with the key "${ask.spec.key}"`);
    }
    this.#liveKeys.set(key, uid);
  }

  #freeKey(uid: string, ask: AskRecord): void {
    if (ask.spec.key === undefined) return;
    const key = scoped(ask.tenant, ask.spec.key);
    if (this.#liveKeys.get(key) === uid) this.#liveKeys.delete(key);
  }

  /** Compares the replayed state with the checkpoints made at this change; from a checkpoint on, all jobs are known. */
  #compareWithCheckpoints(nextChain: number | undefined): void {
    for (let next = this.#checkpointsAhead[0]; next; next = this.#checkpointsAhead[0]) {
      const { seq, chain } = next.manifest;
      if (this.#seq === undefined || seq > this.#seq) return;
      this.#checkpointsAhead.shift();
      if (seq < this.#seq) continue;
      if ((this.#chain ?? nextChain ?? chain) !== chain) {
        this.#bad('log.chain', `the checkpoint of change ${seq} does not belong to this log`);
      }
      this.#compareWithCheckpoint(next);
    }
  }

  #compareWithCheckpoint({ manifest, contents }: Generation): void {
    const bundles = contents?.bundles ?? [];
    const inCheckpoint = new Set<string>();
    for (const bundle of bundles) {
      inCheckpoint.add(bundle.uid);
      this.#compareJob(bundle, manifest.seq);
    }
    for (const [uid, { job, last }] of this.#jobs) {
      const ended = job && isTerminal(job.state) && !(last && isOpen(last.state));
      if (job && !ended && !inCheckpoint.has(uid)) {
        this.#bad(
          'replay',
          `"${uid}" is ${job.state}, but is not in the checkpoint of change ${manifest.seq}`,
        );
      }
    }
    for (const bundle of bundles) this.#adopt(bundle);
    for (const record of contents?.records ?? []) if (record.kind === 'brain') this.#setBrain(record.after);
    this.#complete = true;
  }

  #compareJob(bundle: JobBundle, seq: number): void {
    const known = this.#jobs.get(bundle.uid);
    if (!known?.job) {
      if (this.#complete && !isEnded(bundle)) {
        this.#bad(
          'replay',
          `the checkpoint of change ${seq} has "${bundle.uid}", which the log never admitted`,
        );
      }
      return;
    }
    const { state, attempt } = known.job;
    if (state === bundle.job.state && attempt === bundle.job.attempt) return;
    this.#bad(
      'replay',
      `"${bundle.uid}" is ${state} (attempt ${attempt}) by the log, ` +
        `${bundle.job.state} (attempt ${bundle.job.attempt}) in the checkpoint of change ${seq}`,
    );
  }

  #adopt({ uid, ask, job, attempts }: JobBundle): void {
    this.#checkEnd(uid, job);
    const highest = Math.max(this.#jobs.get(uid)?.highest ?? 0, job.attempt);
    this.#jobs.set(uid, { ask, job, last: attempts.at(-1), highest });
    if (isTerminal(job.state)) this.#freeKey(uid, ask);
    else this.#takeKey(uid, ask);
  }

  #bad(check: CheckId, sentence: string): void {
    this.#report.bad(check, sentence, this.#position === '' ? undefined : this.#position);
  }
}
