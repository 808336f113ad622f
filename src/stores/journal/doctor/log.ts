/**
 * Reads a whole log without stopping at damage: every segment is checked by itself, then against the segment before it.
 * A segment is read up to its first fault; the whole frames after it are only counted. Recovery stops at the first fault.
 */
import { join } from 'node:path';
import type { Disk } from '../../../kit/env/env.ts';
import { OrchdError } from '../../../model/errors.ts';
import type { Change } from '../../../model/records.ts';
import type { Paths } from '../layout.ts';
import { decodeChanges } from '../log/codec.ts';
import { type FrameHeader, findFrameAfter, readFrame } from '../log/frame.ts';
import { type LogFrame, listSegments, readWhole, type Segment } from '../log/segments.ts';
import type { CheckId } from './report.ts';

/** A fault that ended the reading of a segment, or that separates the segment from the one before it. */
export interface LogFault {
  readonly check: CheckId;
  readonly why: string;
  readonly position: number;
  /** A crash interrupted the write of this frame: harmless at the end of the log, damage anywhere else. */
  readonly torn: boolean;
}

export interface SegmentSurvey extends Segment {
  readonly fileBytes: number;
  /** The bytes at the start of the file that hold whole frames. */
  readonly goodBytes: number;
  readonly frames: number;
  /** The `chain` field of the first frame, which must be the payload checksum of the frame before it. */
  readonly firstChain: number | undefined;
  readonly nextSeq: number;
  /** The payload checksum of the last whole frame; without a frame here, of the last one before this segment. */
  readonly chain: number | undefined;
  readonly epoch: number;
  readonly at: number;
  readonly fault: LogFault | undefined;
  /** Set where the segment does not follow the one before it. */
  readonly linkFault: LogFault | undefined;
  /** The number of whole frames after the fault, and of the changes in them. */
  readonly beyond: { readonly frames: number; readonly changes: number };
}

export interface LogConsumer {
  /** Takes the next frame. */
  frame(frame: LogFrame, changes: readonly Change[]): void;
  /** The next frame does not follow the last one, or is the first one and not change 1: earlier frames are missing. */
  gap(): void;
}

/** The state of the log just before a segment, against which its first frame is checked. */
type LogPoint = Pick<SegmentSurvey, 'nextSeq' | 'chain' | 'epoch' | 'at'>;

const BEGINNING: LogPoint = { nextSeq: 1, chain: 0, epoch: 0, at: 0 };

/** Reads all segments, passes the frames before the first fault of each to `consumer`, and returns a survey of each. */
export async function surveyLog(disk: Disk, paths: Paths, consumer: LogConsumer): Promise<SegmentSurvey[]> {
  const surveys: SegmentSurvey[] = [];
  for (const segment of await listSegments(disk, paths.log)) {
    const former = surveys.at(-1);
    const connected = former ? !former.fault && former.nextSeq === segment.firstSeq : segment.firstSeq === 1;
    const before = connected ? (former ?? BEGINNING) : undefined;
    if (!connected) consumer.gap();
    const log = await readWhole(disk, join(paths.log, segment.name));
    const survey = new SegmentReader(log, segment, before, consumer).read();
    surveys.push(former && !connected ? { ...survey, linkFault: missingBefore(former, segment) } : survey);
  }
  return surveys;
}

function missingBefore(former: SegmentSurvey, segment: Segment): LogFault | undefined {
  // The fault in the segment before is reported already.
  if (former.fault) return undefined;
  const { nextSeq } = former;
  const why =
    segment.firstSeq < nextSeq
      ? `the segment starts with change ${segment.firstSeq}, which is already in ${former.name}`
      : `the changes ${nextSeq} to ${segment.firstSeq - 1} are missing before this segment`;
  return { check: 'log.order', why, position: 0, torn: false };
}

class SegmentReader {
  readonly #log: Buffer;
  readonly #segment: Segment;
  readonly #before: LogPoint | undefined;
  readonly #consumer: LogConsumer;
  #position = 0;
  #frames = 0;
  #nextSeq: number;
  #chain: number | undefined;
  #epoch: number;
  #at: number;
  #firstChain: number | undefined;
  #linkFault: LogFault | undefined;

  constructor(log: Buffer, segment: Segment, before: LogPoint | undefined, consumer: LogConsumer) {
    this.#log = log;
    this.#segment = segment;
    this.#before = before;
    this.#consumer = consumer;
    this.#nextSeq = segment.firstSeq;
    this.#chain = before?.chain;
    this.#epoch = before?.epoch ?? 0;
    this.#at = before?.at ?? 0;
  }

  read(): SegmentSurvey {
    const fault = this.#readFrames();
    return {
      ...this.#segment,
      fileBytes: this.#log.length,
      goodBytes: Math.min(this.#position, this.#log.length),
      frames: this.#frames,
      firstChain: this.#firstChain,
      nextSeq: this.#nextSeq,
      chain: this.#chain,
      epoch: this.#epoch,
      at: this.#at,
      fault,
      linkFault: this.#linkFault,
      beyond: fault ? this.#countBeyond() : { frames: 0, changes: 0 },
    };
  }

  #readFrames(): LogFault | undefined {
    for (;;) {
      const read = readFrame(this.#log, this.#position);
      if (read.is === 'end') return undefined;
      if (read.is === 'torn') return this.#torn(read.why);
      if (read.is === 'corrupt') return this.#fault('log.frames', read.why);
      const { header, payload } = read;
      const fault = this.#checkOrder(header) ?? this.#passOn(header, payload);
      if (fault) return fault;
      this.#frames++;
      this.#nextSeq += header.count;
      this.#chain = header.payloadCrc;
      this.#epoch = header.epoch;
      this.#at = header.at;
      this.#position = read.end;
    }
  }

  #torn(why: string): LogFault {
    const later = findFrameAfter(this.#log, this.#position);
    if (later === undefined) return this.#fault('log.tail', why, true);
    return this.#fault('log.frames', `${why}, but a frame follows at ${later}`);
  }

  #checkOrder(header: FrameHeader): LogFault | undefined {
    if (header.firstSeq !== this.#nextSeq) {
      const why = `change ${this.#nextSeq} was expected, the frame starts with ${header.firstSeq}`;
      return this.#fault('log.order', why);
    }
    const isFirst = this.#frames === 0;
    if (isFirst) this.#firstChain = header.chain;
    const fault = this.#checkLink(header);
    if (!fault || !isFirst) return fault;
    // The segment itself is undamaged; it only does not follow the segment before it.
    if (!this.#linkFault) this.#consumer.gap();
    this.#linkFault = fault;
    return undefined;
  }

  #checkLink(header: FrameHeader): LogFault | undefined {
    if (this.#frames === 0 && !this.#before) return undefined;
    if (this.#chain !== undefined && header.chain !== this.#chain) {
      return this.#fault('log.chain', 'the frame does not follow the one before it');
    }
    if (header.epoch >= this.#epoch) return undefined;
    return this.#fault(
      'log.epoch',
      `the frame was written by epoch ${header.epoch} after epoch ${this.#epoch}`,
    );
  }

  #passOn(header: FrameHeader, payload: Buffer): LogFault | undefined {
    let changes: Change[];
    try {
      changes = decodeChanges(payload, header.count);
    } catch (error) {
      const tooNew = error instanceof OrchdError && error.code === 'STORE_TOO_NEW';
      return this.#fault(tooNew ? 'format' : 'records', (error as Error).message);
    }
    const { name } = this.#segment;
    this.#consumer.frame({ header, payload, segment: name, position: this.#position }, changes);
    return undefined;
  }

  #fault(check: CheckId, why: string, torn = false): LogFault {
    return { check, why, position: this.#position, torn };
  }

  #countBeyond(): { frames: number; changes: number } {
    let frames = 0;
    let changes = 0;
    for (let at = findFrameAfter(this.#log, this.#position); at !== undefined; ) {
      const read = readFrame(this.#log, at);
      if (read.is === 'frame') {
        frames++;
        changes += read.header.count;
      }
      at = findFrameAfter(this.#log, at);
    }
    return { frames, changes };
  }
}

/**
 * The last change that can be reached from change `seq`, whose frame has the checksum `chain`, and the segments on the
 * way: only whole frames that follow each other count.
 */
export function reachFrom(
  surveys: readonly SegmentSurvey[],
  seq: number,
  chain: number,
): { readonly upTo: number; readonly taken: readonly SegmentSurvey[] } {
  let upTo = seq;
  let expected: number | undefined = chain;
  const taken: SegmentSurvey[] = [];
  for (const survey of surveys) {
    if (survey.firstSeq !== upTo + 1) continue;
    if (survey.firstChain !== undefined && survey.firstChain !== expected) break;
    if (survey.linkFault && taken.length > 0) break;
    upTo = survey.nextSeq - 1;
    if (survey.frames > 0) expected = survey.chain;
    taken.push(survey);
    if (survey.fault) break;
  }
  return { upTo, taken };
}
