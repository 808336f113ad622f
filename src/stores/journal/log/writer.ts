/**
 * Writes the log with group commits. A flush writes one frame and calls fdatasync. Changes that are appended while a
 * flush runs wait for the next one, which starts only after the fdatasync of the last one has returned.
 *
 * W1  `events.durable` is called with a sequence only after the fdatasync that covers it.
 * W2  A failed fdatasync stops the writer for good, and so does a write that fails for any reason but a full disk.
 * W3  A segment is filled with zeros, synced and renamed durably before the first frame is written to it.
 * W4  There is always a current segment with room. While no spare segment can be made as its successor, the disk counts
 *     as full: new work is refused, and the rest of the current segment is left for cancels and outcomes.
 */
import { join } from 'node:path';
import type { DiskFile, Env } from '../../../kit/env/env.ts';
import { pause } from '../../../kit/pause.ts';
import { OrchdError } from '../../../model/errors.ts';
import { isFull } from '../../disk-failure.ts';
import { type Paths, segmentName } from '../layout.ts';
import { CommitDelay } from './commit-delay.ts';
import { encodeFrame } from './frame.ts';
import { RETRY_WHEN_FULL_MS, SpareSegment } from './spare.ts';

export interface LogEvents {
  durable(seq: number): void;
  diskFull(isFull: boolean): void;
  failed(error: Error): void;
}

export interface LogLimits {
  readonly minSegmentBytes: number;
  readonly maxSegmentBytes: number;
  /** Compared with the UTF-16 length of the text, so a frame may be up to three times as large in bytes. */
  readonly maxFrameBytes: number;
  /** Compared with the UTF-16 length of the pending text, too. */
  readonly maxPendingBytes: number;
}

export const LOG_LIMITS: LogLimits = {
  minSegmentBytes: 4 * 2 ** 20,
  maxSegmentBytes: 64 * 2 ** 20,
  maxFrameBytes: 4 * 2 ** 20,
  maxPendingBytes: 64 * 2 ** 20,
};

/** After a segment that filled faster than this, the next one is twice as large. */
const BUSY_SEGMENT_MS = 5000;

/** The changes of one append; they always go into the same frame. */
export interface AppendedChanges {
  /** The encoded changes. */
  readonly text: string;
  readonly count: number;
  /** Number of batch jobs admitted, if the append does nothing else; otherwise 0, and the append is urgent. */
  readonly batchAsks: number;
  /** The brain time of the append. */
  readonly at: number;
}

export interface WriterParts {
  readonly env: Env;
  readonly paths: Paths;
  readonly events: LogEvents;
  /** The end of the recovered log, which the first frame continues. */
  readonly end: { readonly nextSeq: number; readonly chain: number | undefined };
  readonly limits: LogLimits;
}

interface OpenSegment {
  readonly file: DiskFile;
  readonly bytes: number;
  readonly openedAt: number;
  /** The byte at which the next frame is written. */
  position: number;
}

type Phase =
  | { readonly is: 'idle' }
  | Flushing
  /** Final: see W2. */
  | { readonly is: 'failed'; readonly error: Error };

interface Flushing {
  readonly is: 'flushing';
  done: Promise<void>;
  /** Ends the wait for more batch jobs; set while the next frame waits for them. */
  stopWaiting: (() => void) | undefined;
}

const IDLE: Phase = { is: 'idle' };

export class LogWriter {
  readonly #env: Env;
  readonly #paths: Paths;
  readonly #events: LogEvents;
  readonly #limits: LogLimits;
  readonly #spare: SpareSegment;
  readonly #delay = new CommitDelay();
  #phase: Phase = IDLE;
  #closing = false;
  #segment: OpenSegment;
  #pending: AppendedChanges[] = [];
  /** The size of #pending as UTF-16 length, which for text outside of ASCII is less than the bytes that are written. */
  #pendingChars = 0;
  /** Something other than batch jobs is pending, so the next frame is written without a wait. */
  #hasUrgent = false;
  #seq: number;
  #durableSeq: number;
  #chain: number;
  #epoch = 0;
  readonly #rollRequests: { readonly done: (seq: number) => void; readonly fail: (error: Error) => void }[] =
    [];
  /** Bytes of frames written since the last roll(); they decide when a checkpoint is due. */
  logBytes = 0;

  private constructor(parts: WriterParts, spare: SpareSegment, segment: OpenSegment) {
    const { env, paths, events, end, limits } = parts;
    this.#env = env;
    this.#paths = paths;
    this.#events = events;
    this.#limits = limits;
    this.#spare = spare;
    this.#segment = segment;
    this.#seq = end.nextSeq - 1;
    this.#durableSeq = this.#seq;
    // The first frame of a new log follows none: its chain is 0.
    this.#chain = end.chain ?? 0;
  }

  /** Opens a new segment after the recovered log; the segments before it are never written again. */
  static async open(parts: WriterParts): Promise<LogWriter> {
    const { env, paths, events, end, limits } = parts;
    const { minSegmentBytes } = limits;
    let writer: LogWriter | undefined;
    const failed = (error: Error): void => (writer ? writer.#fail(error) : events.failed(error));
    const diskFull = (isFull: boolean): void => events.diskFull(isFull);
    const spare = new SpareSegment(env, paths, minSegmentBytes, { diskFull, failed });
    if (!(await spare.ensure(minSegmentBytes))) {
      throw new OrchdError('STORE_FULL', 'the disk is full: there is no room for a new log segment');
    }
    writer = new LogWriter(parts, spare, await takeSpare(env, paths, spare, end.nextSeq));
    spare.prepare(minSegmentBytes);
    return writer;
  }

  /** The last durable change, and the payload checksum of the frame that ends with it. */
  get durableEnd(): { readonly seq: number; readonly chain: number } {
    return { seq: this.#durableSeq, chain: this.#chain };
  }

  get overloaded(): boolean {
    return this.#pendingChars > this.#limits.maxPendingBytes;
  }

  append(unit: AppendedChanges, epoch: number): number {
    const phase = this.#phase;
    if (phase.is === 'failed') throw new OrchdError('STORE_FAILED', undefined, {}, { cause: phase.error });
    this.#seq += unit.count;
    this.#epoch = epoch;
    this.#pending.push(unit);
    this.#pendingChars += unit.text.length;
    this.#delay.appended(unit.batchAsks);
    this.#hasUrgent ||= unit.batchAsks === 0;
    if (phase.is === 'idle') this.#start();
    else if (phase.stopWaiting && this.#waitMs() === 0) phase.stopWaiting();
    return this.#seq;
  }

  /** Seals the current segment once everything appended so far is in it; resolves to its last sequence. */
  roll(): Promise<number> {
    const phase = this.#phase;
    if (phase.is === 'failed') return Promise.reject(phase.error);
    return new Promise((done, fail) => {
      this.#rollRequests.push({ done, fail });
      if (phase.is === 'idle') this.#start();
    });
  }

  /** The store is closing: a roll() that waits for space is given up within RETRY_WHEN_FULL_MS. */
  stopRolling(): void {
    this.#closing = true;
  }

  async close(): Promise<void> {
    this.#closing = true;
    if (this.#phase.is === 'flushing') this.#phase.stopWaiting?.();
    while (this.#phase.is === 'flushing') await this.#phase.done;
    await this.#spare.close();
    await this.#segment.file.close();
  }

  #start(): void {
    const flushing: Flushing = { is: 'flushing', done: Promise.resolve(), stopWaiting: undefined };
    this.#phase = flushing;
    flushing.done = this.#flushAll(flushing).catch((error: Error) => this.#fail(error));
  }

  async #flushAll(phase: Flushing): Promise<void> {
    while (this.#phase === phase && (this.#pending.length > 0 || this.#rollRequests.length > 0)) {
      while (this.#pending.length > 0 && this.#phase === phase) {
        if (this.#waitMs() > 0) await this.#waitForMoreJobs(phase);
        await this.#flush();
        if (this.#pending.length > 0) await this.#awaitFollowUps();
      }
      if (this.#rollRequests.length > 0) await this.#rollNow();
    }
    if (this.#phase === phase) this.#phase = IDLE;
  }

  async #flush(): Promise<void> {
    const { text, count, batchAsks, at } = this.#takeFrameContents();
    const firstSeq = this.#durableSeq + 1;
    const { frame, payloadCrc } = encodeFrame({
      firstSeq,
      count,
      epoch: this.#epoch,
      at,
      chain: this.#chain,
      text,
    });
    const segment = await this.#segmentWithRoom(frame.length);
    await this.#writeFrame(segment, frame);
    await segment.file.datasync();
    segment.position += frame.length;
    this.logBytes += frame.length;
    this.#chain = payloadCrc;
    this.#durableSeq += count;
    this.#pendingChars -= text.length;
    this.#events.durable(this.#durableSeq);
    // Called after this turn of the event loop, in which the callers are answered.
    if (batchAsks > 0)
      this.#env.timers.soon(() => this.#delay.committed(batchAsks, this.#env.clock.monotonic()));
  }

  #waitMs(): number {
    if (this.#hasUrgent || this.#closing) return 0;
    return this.#delay.waitMs(this.#env.clock.monotonic());
  }

  #waitForMoreJobs(phase: Flushing): Promise<void> {
    return new Promise((resolve) => {
      const cancel = this.#env.timers.after(this.#waitMs(), () => phase.stopWaiting?.());
      phase.stopWaiting = () => {
        phase.stopWaiting = undefined;
        cancel();
        resolve();
      };
    });
  }

  /**
   * What has just become durable usually leads to further changes (the next submit, the next claim). They are appended
   * within two turns of the event loop: one to receive the event, one for its consequences. Waiting for them puts all
   * of them into the next frame.
   */
  async #awaitFollowUps(): Promise<void> {
    for (let turns = 0; turns < 2; turns++)
      await new Promise<void>((resolve) => this.#env.timers.soon(resolve));
  }

  #takeFrameContents(): AppendedChanges {
    const units = this.#pending;
    let chars = 0;
    let taken = 0;
    while (taken < units.length) {
      const next = (units[taken] as AppendedChanges).text.length;
      if (taken > 0 && chars + next > this.#limits.maxFrameBytes) break;
      chars += next;
      taken++;
    }
    const batch = taken === units.length ? units : units.slice(0, taken);
    this.#pending = taken === units.length ? [] : units.slice(taken);
    this.#hasUrgent = this.#pending.some((unit) => unit.batchAsks === 0);
    let text = '';
    let count = 0;
    let batchAsks = 0;
    for (const unit of batch) {
      text += unit.text;
      count += unit.count;
      batchAsks += unit.batchAsks;
    }
    return { text, count, batchAsks, at: (batch[batch.length - 1] as AppendedChanges).at };
  }

  /** After a full disk the frame is written again at the same position: nothing of an unsynced frame was acknowledged. */
  async #writeFrame(segment: OpenSegment, frame: Buffer): Promise<void> {
    for (;;) {
      try {
        await segment.file.write(segment.position, frame);
        this.#spare.noteWritten();
        return;
      } catch (error) {
        if (!isFull(error)) throw error;
        this.#spare.noteFull();
        await this.#pause();
      }
    }
  }

  async #segmentWithRoom(bytes: number): Promise<OpenSegment> {
    const segment = this.#segment;
    return segment.position + bytes <= segment.bytes ? segment : this.#nextSegment(bytes);
  }

  async #nextSegment(bytes: number): Promise<OpenSegment> {
    while (!(await this.#spare.ensure(bytes))) await this.#pause();
    const former = this.#segment;
    const filledFast = this.#env.clock.monotonic() - former.openedAt < BUSY_SEGMENT_MS;
    const wanted = filledFast
      ? Math.min(2 * former.bytes, this.#limits.maxSegmentBytes)
      : this.#limits.minSegmentBytes;
    this.#segment = await takeSpare(this.#env, this.#paths, this.#spare, this.#durableSeq + 1);
    await former.file.truncate(former.position);
    await former.file.close();
    if (!this.#closing) this.#spare.prepare(wanted);
    return this.#segment;
  }

  async #rollNow(): Promise<void> {
    const requests = this.#rollRequests.splice(0);
    try {
      if (this.#segment.position > 0) await this.#nextSegment(1);
    } catch (error) {
      for (const { fail } of requests) fail(error as Error);
      // Nothing appended is lost when a roll is given up; any other failure is final (W2).
      if (this.#closing && error instanceof OrchdError && error.code === 'STORE_FULL') return;
      throw error;
    }
    this.logBytes = 0;
    for (const { done } of requests) done(this.#durableSeq);
  }

  #pause(): Promise<void> {
    if (this.#closing) throw new OrchdError('STORE_FULL');
    return pause(this.#env.timers, RETRY_WHEN_FULL_MS);
  }

  #fail(error: Error): void {
    if (this.#phase.is === 'failed') return;
    this.#phase = { is: 'failed', error };
    void this.#spare.close();
    for (const roller of this.#rollRequests.splice(0)) roller.fail(error);
    this.#events.failed(error);
  }
}

/** Turns the spare into the segment that starts with change `firstSeq`. */
async function takeSpare(
  { disk, clock }: Env,
  paths: Paths,
  spare: SpareSegment,
  firstSeq: number,
): Promise<OpenSegment> {
  const path = join(paths.log, segmentName(firstSeq));
  const bytes = await spare.take(path);
  return { file: await disk.open(path, 'write'), bytes, position: 0, openedAt: clock.monotonic() };
}
