/**
 * The format of a frame, which is what one flush writes. A frame starts on a sector of its own, so that writing it never
 * touches bytes that are durable already.
 *
 *   0  magic        4  not valid UTF-8, so no payload contains it
 *   4  size         4  of the payload, in bytes
 *   8  first seq    8  double
 *  16  changes      4
 *  20  epoch        4
 *  24  time         8  double, brain time of the last append in the frame
 *  32  payload crc  4
 *  36  chain        4  the payload crc of the frame before
 *  40  header crc   4  over the 40 bytes before
 *  44  payload         one JSON line per change
 *   …  end mark     4  no byte of it is zero
 *   …  zeros to the end of the sector
 */
import { crc32 } from 'node:zlib';

export const SECTOR_BYTES = 512;
const HEADER_BYTES = 44;
const MAGIC = Buffer.from([0xff, 0x4f, 0x4a, 0xfd]);
const END_MARK = Buffer.from([0xf7, 0x65, 0x6e, 0xfb]);

export interface FrameHeader {
  readonly firstSeq: number;
  readonly count: number;
  readonly epoch: number;
  readonly at: number;
  readonly payloadCrc: number;
  readonly chain: number;
  readonly payloadBytes: number;
}

export const alignUp = (bytes: number): number => Math.ceil(bytes / SECTOR_BYTES) * SECTOR_BYTES;

export const frameBytes = (payloadBytes: number): number =>
  alignUp(HEADER_BYTES + payloadBytes + END_MARK.length);

export interface FrameInput {
  readonly firstSeq: number;
  readonly count: number;
  readonly epoch: number;
  readonly at: number;
  readonly chain: number;
  readonly text: string;
}

export function encodeFrame(input: FrameInput): { readonly frame: Buffer; readonly payloadCrc: number } {
  const payloadBytes = Buffer.byteLength(input.text);
  const frame = Buffer.allocUnsafe(frameBytes(payloadBytes));
  frame.write(input.text, HEADER_BYTES, 'utf8');
  const payloadEnd = HEADER_BYTES + payloadBytes;
  const payloadCrc = crc32(frame.subarray(HEADER_BYTES, payloadEnd));
  MAGIC.copy(frame, 0);
  frame.writeUInt32LE(payloadBytes, 4);
  frame.writeDoubleLE(input.firstSeq, 8);
  frame.writeUInt32LE(input.count, 16);
  frame.writeUInt32LE(input.epoch, 20);
  frame.writeDoubleLE(input.at, 24);
  frame.writeUInt32LE(payloadCrc, 32);
  frame.writeUInt32LE(input.chain, 36);
  frame.writeUInt32LE(crc32(frame.subarray(0, 40)), 40);
  END_MARK.copy(frame, payloadEnd);
  frame.fill(0, payloadEnd + END_MARK.length);
  return { frame, payloadCrc };
}

/** The header at a position; undefined where there is no complete and valid one. */
export function readHeader(log: Buffer, at: number): FrameHeader | undefined {
  if (at + HEADER_BYTES > log.length) return undefined;
  if (log.compare(MAGIC, 0, MAGIC.length, at, at + MAGIC.length) !== 0) return undefined;
  if (crc32(log.subarray(at, at + 40)) !== log.readUInt32LE(at + 40)) return undefined;
  return {
    payloadBytes: log.readUInt32LE(at + 4),
    firstSeq: log.readDoubleLE(at + 8),
    count: log.readUInt32LE(at + 16),
    epoch: log.readUInt32LE(at + 20),
    at: log.readDoubleLE(at + 24),
    payloadCrc: log.readUInt32LE(at + 32),
    chain: log.readUInt32LE(at + 36),
  };
}

export type FrameRead =
  | { readonly is: 'frame'; readonly header: FrameHeader; readonly payload: Buffer; readonly end: number }
  /** From here on the file holds only zeros, or nothing. */
  | { readonly is: 'end' }
  /** A crash interrupted the write of this frame, so it was never acknowledged. */
  | { readonly is: 'torn'; readonly why: string }
  | { readonly is: 'corrupt'; readonly why: string };

const isZero = (log: Buffer, from: number, to: number): boolean => {
  for (let at = from; at < to; at++) if (log[at] !== 0) return false;
  return true;
};

/** Reads the frame at a position. Only the frame's own bytes count; its place in the log is checked by the caller. */
export function readFrame(log: Buffer, at: number): FrameRead {
  if (isZero(log, at, log.length)) return { is: 'end' };
  const header = readHeader(log, at);
  if (!header) return classifyBadHeader(log, at);
  const payloadAt = at + HEADER_BYTES;
  const payloadEnd = payloadAt + header.payloadBytes;
  const end = at + frameBytes(header.payloadBytes);
  if (payloadEnd + END_MARK.length > log.length) return { is: 'torn', why: 'the file ends inside the frame' };
  const payload = log.subarray(payloadAt, payloadEnd);
  const markOk = log.compare(END_MARK, 0, END_MARK.length, payloadEnd, payloadEnd + END_MARK.length) === 0;
  if (!markOk || crc32(payload) !== header.payloadCrc) {
    return classifyBadBody(log, at, Math.min(end, log.length), payloadEnd);
  }
  if (!isZero(log, payloadEnd + END_MARK.length, Math.min(end, log.length))) {
    return { is: 'corrupt', why: 'bytes after the end mark' };
  }
  return { is: 'frame', header, payload, end };
}

function classifyBadHeader(log: Buffer, at: number): FrameRead {
  if (at + HEADER_BYTES > log.length) {
    const present = log.subarray(at, Math.min(at + MAGIC.length, log.length));
    const fits = present.compare(MAGIC.subarray(0, present.length)) === 0;
    return fits
      ? { is: 'torn', why: 'the file ends inside a frame header' }
      : { is: 'corrupt', why: 'the bytes are no frame header' };
  }
  if (isZero(log, at, Math.min(at + SECTOR_BYTES, log.length))) {
    return { is: 'torn', why: 'the first sector of the frame was not written' };
  }
  if (isZero(log, at + HEADER_BYTES, log.length) && log[at + HEADER_BYTES - 1] === 0) {
    return { is: 'torn', why: 'the frame stops inside its header' };
  }
  return { is: 'corrupt', why: 'the frame header does not match its checksum' };
}

function classifyBadBody(log: Buffer, at: number, end: number, payloadEnd: number): FrameRead {
  for (let sector = at; sector < end; sector += SECTOR_BYTES) {
    if (isZero(log, sector, Math.min(sector + SECTOR_BYTES, end))) {
      return { is: 'torn', why: 'a sector of the frame was not written' };
    }
  }
  if (log[payloadEnd + END_MARK.length - 1] === 0) return { is: 'torn', why: 'the frame has no end' };
  return { is: 'corrupt', why: 'the frame does not match its checksum' };
}

/** The position of the next valid frame header; where there is one, what lies before it was not the end of the log. */
export function findFrameAfter(log: Buffer, at: number): number | undefined {
  for (let sector = alignUp(at + 1); sector < log.length; sector += SECTOR_BYTES) {
    if (readHeader(log, sector)) return sector;
  }
  return undefined;
}
