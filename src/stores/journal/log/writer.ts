/**
 * The group commit. Everything that arrived during one flush goes into the next; a frame is written only after
 * the last fdatasync has returned.
 *
 * W1  `durable` is told a sequence only after the fdatasync that covers it.
 * W2  A failed fdatasync, or a failed write for any reason but a full disk, stops the writer for good.
 * W3  A segment is made of zeros, synced and named durably before the first frame goes into it.
 * W4  The spare segment is the reserve: when no new spare can be made the disk counts as full, and what is left
 *     of the present segment is for cancels and outcomes.
 */
import { join } from 'node:path';
import type { Disk, DiskFile, Env } from '../../../kit/env/env.ts';
import { OrchdError } from '../../../model/errors.ts';
import { isFull } from '../../disk-failure.ts';
import { type Paths, segmentName } from '../layout.ts';
import { Callers } from './callers.ts';
import { encodeFrame } from './frame.ts';

export interface LogEvents {
  durable(seq: number): void;
  space(full: boolean): void;
  failed(error: Error): void;
}

export interface LogLimits {
  readonly minSegmentBytes: number;
  readonly maxSegmentBytes: number;
  readonly maxFrameBytes: number;
  readonly maxPendingBytes: number;
}

export const LOG_LIMITS: LogLimits = {
  minSegmentBytes: 4 * 2 ** 20,
  maxSegmentBytes: 64 * 2 ** 20,
  maxFrameBytes: 4 * 2 ** 20,
  maxPendingBytes: 64 * 2 ** 20,
};

const ZEROS = Buffer.alloc(2 ** 20);
const RETRY_WHEN_FULL_MS = 1000;
/** A segment that filled faster than this makes the next one larger. */
const BUSY_SEGMENT_MS = 5000;

export interface Unit {
  readonly text: string;
  readonly count: number;
  /** How many jobs were asked for, where that is all that has changed and none of them is in a hurry; else 0. */
  readonly asks: number;
  readonly at: number;
}

interface OpenSegment {
  readonly file: DiskFile;
  readonly bytes: number;
  readonly openedAt: number;
  position: number;
}

export class LogWriter {
  readonly #disk: Disk;
  readonly #env: Env;
  readonly #paths: Paths;
  readonly #events: LogEvents;
  readonly #limits: LogLimits;
  #pending: Unit[] = [];
  #pendingBytes = 0;
  #seq: number;
  #durableSeq: number;
  #chain: number;
  #epoch = 0;
  #segment: OpenSegment | undefined;
  #spareBytes = 0;
  #makingSpare: Promise<void> | undefined;
  readonly #callers = new Callers();
  /** Something is pending that waits for nobody. */
  #hurried = false;
  #stopGathering: (() => void) | undefined;
  #flushing: Promise<void> | undefined;
  #full = false;
  #failure: Error | undefined;
  #closing = false;
  #rollWanted = false;
  #rollers: { readonly done: (seq: number) => void; readonly fail: (error: Error) => void }[] = [];
  /** Bytes of frames written since the last roll point, for the checkpoint policy. */
  logBytes = 0;

  constructor(
    env: Env,
    paths: Paths,
    events: LogEvents,
    end: { nextSeq: number; chain: number },
    limits = LOG_LIMITS,
  ) {
    this.#env = env;
    this.#disk = env.disk;
    this.#paths = paths;
    this.#events = events;
    this.#limits = limits;
    this.#seq = end.nextSeq - 1;
    this.#durableSeq = this.#seq;
    this.#chain = end.chain;
  }

  get overloaded(): boolean {
    return this.#pendingBytes > this.#limits.maxPendingBytes;
  }

  /** Prepares the first segment; call once before the first append. */
  async open(): Promise<void> {
    await this.#makeSpare(this.#limits.minSegmentBytes);
    if (this.#full) {
      throw new OrchdError('STORE_FULL', 'the disk is full: there is no room for a new log segment');
    }
    await this.#takeSpare();
    this.#prepareSpare(this.#limits.minSegmentBytes);
  }

  append(unit: Unit, epoch: number): number {
    if (this.#failure) throw new OrchdError('STORE_FAILED', undefined, {}, { cause: this.#failure });
    this.#seq += unit.count;
    this.#epoch = epoch;
    this.#pending.push(unit);
    this.#pendingBytes += unit.text.length;
    this.#callers.came(unit.asks);
    this.#hurried ||= unit.asks === 0;
    if (this.#waitMs() === 0) this.#stopGathering?.();
    this.#kick();
    return this.#seq;
  }

  /** Seals the present segment as soon as everything appended so far is in it; resolves to its last sequence. */
  roll(): Promise<number> {
    if (this.#failure) return Promise.reject(this.#failure);
    return new Promise((done, fail) => {
      this.#rollWanted = true;
      this.#rollers.push({ done, fail });
      this.#kick();
    });
  }

  async close(): Promise<void> {
    this.#closing = true;
    this.#stopGathering?.();
    while (this.#flushing && !this.#failure) await this.#flushing;
    await this.#makingSpare;
    await this.#segment?.file.close();
    this.#segment = undefined;
  }

  #kick(): void {
    if (this.#flushing || this.#failure) return;
    this.#flushing = this.#flushAll().catch((error: Error) => this.#fail(error));
  }

  async #flushAll(): Promise<void> {
    for (;;) {
      while (this.#pending.length > 0) {
        if (this.#waitMs() > 0) await this.#gather();
        await this.#flush();
        if (this.#pending.length > 0) await this.#listen();
      }
      if (this.#rollWanted) await this.#rollNow();
      if (this.#pending.length === 0) break;
    }
    this.#flushing = undefined;
  }

  async #flush(): Promise<void> {
    const { text, count, asks, at } = this.#takeBatch();
    const firstSeq = this.#durableSeq + 1;
    const { frame, payloadCrc } = encodeFrame({
      firstSeq,
      count,
      epoch: this.#epoch,
      at,
      chain: this.#chain,
      text,
    });
    const segment = await this.#roomFor(frame.length);
    await this.#writeFrame(segment, frame);
    await segment.file.datasync();
    segment.position += frame.length;
    this.logBytes += frame.length;
    this.#chain = payloadCrc;
    this.#durableSeq += count;
    this.#pendingBytes -= text.length;
    this.#events.durable(this.#durableSeq);
    // After this turn, in which they are told.
    if (asks > 0) this.#env.timers.soon(() => this.#callers.told(asks, this.#env.clock.monotonic()));
  }

  #waitMs(): number {
    if (this.#hurried || this.#closing) return 0;
    return this.#callers.waitMs(this.#env.clock.monotonic());
  }

  #gather(): Promise<void> {
    return new Promise((resolve) => {
      const cancel = this.#env.timers.after(this.#waitMs(), () => this.#stopGathering?.());
      this.#stopGathering = () => {
        this.#stopGathering = undefined;
        cancel();
        resolve();
      };
    });
  }

  /**
   * Those who were just told usually answer with more. Their answers are in after two turns of the loop: one for
   * them to be heard, one for what they led to; then the next frame holds it all.
   */
  async #listen(): Promise<void> {
    for (let turns = 0; turns < 2; turns++)
      await new Promise<void>((resolve) => this.#env.timers.soon(resolve));
  }

  #takeBatch(): Unit {
    const units = this.#pending;
    let chars = 0;
    let taken = 0;
    while (taken < units.length) {
      const next = (units[taken] as Unit).text.length;
      if (taken > 0 && chars + next > this.#limits.maxFrameBytes) break;
      chars += next;
      taken++;
    }
    const batch = taken === units.length ? units : units.slice(0, taken);
    this.#pending = taken === units.length ? [] : units.slice(taken);
    this.#hurried = this.#pending.some((unit) => unit.asks === 0);
    let text = '';
    let count = 0;
    let asks = 0;
    for (const unit of batch) {
      text += unit.text;
      count += unit.count;
      asks += unit.asks;
    }
    return { text, count, asks, at: (batch[batch.length - 1] as Unit).at };
  }

  /** Nothing of an unsynced frame was acknowledged, so it may be written again over itself. */
  async #writeFrame(segment: OpenSegment, frame: Buffer): Promise<void> {
    for (;;) {
      try {
        await segment.file.write(segment.position, frame);
        // There is space again, and the reserve is whole.
        if (this.#spareBytes > 0) this.#setFull(false);
        return;
      } catch (error) {
        if (!isFull(error)) throw error;
        this.#setFull(true);
        await this.#pause();
      }
    }
  }

  async #roomFor(bytes: number): Promise<OpenSegment> {
    const segment = this.#segment as OpenSegment;
    if (segment.position + bytes <= segment.bytes) return segment;
    return this.#nextSegment(bytes);
  }

  async #nextSegment(bytes: number): Promise<OpenSegment> {
    for (;;) {
      await this.#makingSpare;
      if (this.#spareBytes >= bytes) break;
      await this.#makeSpare(Math.max(bytes, this.#limits.minSegmentBytes));
      if (this.#spareBytes < bytes) await this.#pause();
    }
    const former = this.#segment as OpenSegment;
    const filledFast = this.#env.clock.monotonic() - former.openedAt < BUSY_SEGMENT_MS;
    const wanted = filledFast
      ? Math.min(2 * former.bytes, this.#limits.maxSegmentBytes)
      : this.#limits.minSegmentBytes;
    await this.#takeSpare();
    await former.file.truncate(former.position);
    await former.file.close();
    this.#prepareSpare(wanted);
    return this.#segment as OpenSegment;
  }

  async #rollNow(): Promise<void> {
    this.#rollWanted = false;
    if ((this.#segment as OpenSegment).position > 0) await this.#nextSegment(1);
    this.logBytes = 0;
    for (const { done } of this.#rollers.splice(0)) done(this.#durableSeq);
  }

  /** Gives the spare the name of the segment that starts next; an empty one of that name gives way. */
  async #takeSpare(): Promise<void> {
    const path = join(this.#paths.log, segmentName(this.#durableSeq + 1));
    await this.#disk.rename(this.#paths.spare, path);
    await this.#disk.syncFolder(this.#paths.log);
    const file = await this.#disk.open(path, 'write');
    this.#segment = { file, bytes: this.#spareBytes, position: 0, openedAt: this.#env.clock.monotonic() };
    this.#spareBytes = 0;
  }

  #prepareSpare(bytes: number): void {
    if (this.#closing) return;
    this.#makingSpare = this.#makeSpare(bytes).then(
      () => {
        this.#makingSpare = undefined;
        if (this.#full && !this.#closing)
          this.#env.timers.after(RETRY_WHEN_FULL_MS, () => this.#retrySpare(bytes));
      },
      (error: Error) => this.#fail(error),
    );
  }

  #retrySpare(bytes: number): void {
    if (this.#makingSpare || this.#spareBytes > 0 || this.#failure) return;
    this.#prepareSpare(Math.min(bytes, this.#limits.minSegmentBytes));
  }

  async #makeSpare(bytes: number): Promise<void> {
    let file: DiskFile | undefined;
    try {
      file = await this.#disk.open(this.#paths.spare, 'create');
      for (let at = 0; at < bytes; at += ZEROS.length) {
        await file.write(at, at + ZEROS.length <= bytes ? ZEROS : ZEROS.subarray(0, bytes - at));
      }
      await file.datasync();
      await file.close();
      this.#spareBytes = bytes;
      this.#setFull(false);
    } catch (error) {
      await file?.close();
      if (!isFull(error)) throw error;
      await this.#disk.remove(this.#paths.spare);
      this.#setFull(true);
    }
  }

  #setFull(full: boolean): void {
    if (full === this.#full) return;
    this.#full = full;
    this.#events.space(full);
  }

  #pause(): Promise<void> {
    if (this.#closing) throw new OrchdError('STORE_FULL');
    return new Promise((resolve) => {
      this.#env.timers.after(RETRY_WHEN_FULL_MS, resolve);
    });
  }

  #fail(error: Error): void {
    if (this.#failure) return;
    this.#failure = error;
    for (const roller of this.#rollers.splice(0)) roller.fail(error);
    this.#events.failed(error);
  }
}
