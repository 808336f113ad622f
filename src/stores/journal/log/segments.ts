/**
 * Reads the log back, segment by segment. A torn frame is accepted only at the very end of the last segment; anywhere
 * else it is corruption.
 */
import { join } from 'node:path';
import type { Disk } from '../../../kit/env/env.ts';
import { OrchdError } from '../../../model/errors.ts';
import { segmentStart } from '../layout.ts';
import { type FrameHeader, findFrameAfter, readFrame } from './frame.ts';

export interface Segment {
  readonly name: string;
  readonly firstSeq: number;
}

export interface LogFrame {
  readonly header: FrameHeader;
  readonly payload: Buffer;
  readonly segment: string;
  readonly position: number;
}

/** The end of the log, and the values that the next frame continues. */
export interface LogEnd {
  /** The last segment; undefined where none was read. */
  readonly segment: Segment | undefined;
  /** The bytes of that segment that hold whole frames. */
  readonly goodBytes: number;
  readonly fileBytes: number;
  readonly nextSeq: number;
  /** The payload checksum of the last frame; undefined if no frame was read and LogStart did not give it. */
  readonly chain: number | undefined;
  /** The epoch of the last frame. */
  readonly epoch: number;
  /** The brain time of the last frame. */
  readonly at: number;
  /** Why the bytes after the last frame count as a torn frame; undefined if the log ends with a complete frame. */
  readonly tornReason: string | undefined;
}

export async function listSegments(disk: Disk, folder: string): Promise<Segment[]> {
  const segments: Segment[] = [];
  for (const name of await disk.list(folder)) {
    const firstSeq = segmentStart(name);
    if (firstSeq !== undefined) segments.push({ name, firstSeq });
  }
  return segments.sort((a, b) => a.firstSeq - b.firstSeq);
}

export async function readWhole(disk: Disk, path: string): Promise<Buffer> {
  const file = await disk.open(path, 'read');
  try {
    return await file.read(0, await file.size());
  } finally {
    await file.close();
  }
}

export function corruptAt(segment: string, position: number, why: string): OrchdError {
  return new OrchdError('STORE_CORRUPT', `log/${segment} is damaged at byte ${position}: ${why}`, {
    position: `log/${segment}:${position}`,
  });
}

export interface LogStart {
  readonly nextSeq: number;
  /** The payload checksum of the frame before `nextSeq`; undefined where it is not known and not checked. */
  readonly chain: number | undefined;
}

/**
 * Calls `onFrame` with every frame of the segments that begin between `start.nextSeq` and `upTo`, in order, and returns
 * their end. Throws STORE_CORRUPT at the first damage.
 */
export async function readLog(
  disk: Disk,
  folder: string,
  start: LogStart,
  onFrame: (frame: LogFrame) => void,
  upTo = Number.POSITIVE_INFINITY,
): Promise<LogEnd> {
  const segments = (await listSegments(disk, folder)).filter(
    ({ firstSeq }) => firstSeq >= start.nextSeq && firstSeq <= upTo,
  );
  let end: LogEnd = {
    segment: undefined,
    goodBytes: 0,
    fileBytes: 0,
    nextSeq: start.nextSeq,
    chain: start.chain,
    epoch: 0,
    at: 0,
    tornReason: undefined,
  };
  for (const segment of segments) {
    if (end.tornReason !== undefined) {
      throw corruptAt(end.segment?.name ?? '', end.goodBytes, end.tornReason);
    }
    if (segment.firstSeq !== end.nextSeq) {
      throw new OrchdError(
        'STORE_CORRUPT',
        `the log has no segment that starts with change ${end.nextSeq}; the next one is log/${segment.name}`,
        { position: `log/${segment.name}:0` },
      );
    }
    const log = await readWhole(disk, join(folder, segment.name));
    end = readSegment(log, segment, end, onFrame);
  }
  return end;
}

/**
 * The payload checksum of the frame whose last change is `seq`. Undefined where the log has that change, but no frame ends
 * with it; `unknown` where the segment is no longer there.
 */
export async function checksumAt(
  disk: Disk,
  folder: string,
  seq: number,
): Promise<number | undefined | 'unknown'> {
  const segment = (await listSegments(disk, folder)).findLast(({ firstSeq }) => firstSeq <= seq);
  if (!segment) return 'unknown';
  const log = await readWhole(disk, join(folder, segment.name));
  for (let position = 0; ; ) {
    const read = readFrame(log, position);
    if (read.is !== 'frame') return undefined;
    const { firstSeq, count, payloadCrc } = read.header;
    if (firstSeq + count - 1 === seq) return payloadCrc;
    position = read.end;
  }
}

function readSegment(
  log: Buffer,
  segment: Segment,
  before: LogEnd,
  onFrame: (frame: LogFrame) => void,
): LogEnd {
  let { nextSeq, chain, epoch, at } = before;
  let position = 0;
  let tornReason: string | undefined;
  for (;;) {
    const read = readFrame(log, position);
    if (read.is === 'end') break;
    if (read.is === 'corrupt') throw corruptAt(segment.name, position, read.why);
    if (read.is === 'torn') {
      const later = findFrameAfter(log, position);
      if (later !== undefined)
        throw corruptAt(segment.name, position, `${read.why}, but a frame follows at ${later}`);
      tornReason = read.why;
      break;
    }
    const { header } = read;
    const fault = checkOrder(header, nextSeq, chain, epoch);
    if (fault) throw corruptAt(segment.name, position, fault);
    onFrame({ header, payload: read.payload, segment: segment.name, position });
    nextSeq += header.count;
    chain = header.payloadCrc;
    epoch = header.epoch;
    at = header.at;
    position = read.end;
  }
  return { segment, goodBytes: position, fileBytes: log.length, nextSeq, chain, epoch, at, tornReason };
}

function checkOrder(
  header: FrameHeader,
  nextSeq: number,
  chain: number | undefined,
  epoch: number,
): string | undefined {
  if (header.firstSeq !== nextSeq)
    return `change ${nextSeq} was expected, the frame starts with ${header.firstSeq}`;
  if (chain !== undefined && header.chain !== chain) return 'the frame does not follow the one before it';
  if (header.epoch < epoch) return `the frame was written by epoch ${header.epoch} after epoch ${epoch}`;
  return undefined;
}
