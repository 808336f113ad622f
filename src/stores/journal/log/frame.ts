/**
 * The format of a frame, which is what one flush writes. A frame starts on a sector of its own, so that writing it never
 * touches bytes that are durable already (docs/decisions/0006). Numbers are little-endian.
 *
 *  offset  field         bytes  type    contents
 *       0  MAGIC             4          not valid UTF-8, so no payload contains it
 *       4  payloadBytes      4  uint32  the size of the payload
 *       8  firstSeq          8  double  the sequence number of the first change
 *      16  count             4  uint32  the number of changes
 *      20  epoch             4  uint32  the epoch of the brain that wrote the frame
 *      24  at                8  double  the brain time of the last append in the frame
 *      32  payloadCrc        4  uint32  CRC-32 of the payload
 *      36  chain             4  uint32  payloadCrc of the frame before
 *      40  header CRC        4  uint32  CRC-32 of bytes 0 to 39
 *      44  payload           …          one JSON line per change
 *       …  END_MARK          4          no byte of it is zero
 *       …  zeros             …          up to the end of the sector
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
  /** The brain time of the last append in the frame. */
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
export function readHeader(log: Buffer, position: number): FrameHeader | undefined {
  if (position + HEADER_BYTES > log.length) return undefined;
  if (log.compare(MAGIC, 0, MAGIC.length, position, position + MAGIC.length) !== 0) return undefined;
  if (crc32(log.subarray(position, position + 40)) !== log.readUInt32LE(position + 40)) return undefined;
  return {
    payloadBytes: log.readUInt32LE(position + 4),
    firstSeq: log.readDoubleLE(position + 8),
    count: log.readUInt32LE(position + 16),
    epoch: log.readUInt32LE(position + 20),
    at: log.readDoubleLE(position + 24),
    payloadCrc: log.readUInt32LE(position + 32),
    chain: log.readUInt32LE(position + 36),
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
  for (let position = from; position < to; position++) if (log[position] !== 0) return false;
  return true;
};

/** Reads the frame at a position. Only the frame's own bytes count; its place in the log is checked by the caller. */
export function readFrame(log: Buffer, position: number): FrameRead {
  if (isZero(log, position, log.length)) return { is: 'end' };
  const header = readHeader(log, position);
  if (!header) return classifyBadHeader(log, position);
  const payloadStart = position + HEADER_BYTES;
  const payloadEnd = payloadStart + header.payloadBytes;
  const end = position + frameBytes(header.payloadBytes);
  if (payloadEnd + END_MARK.length > log.length) return { is: 'torn', why: 'the file ends inside the frame' };
  const payload = log.subarray(payloadStart, payloadEnd);
  const markOk = log.compare(END_MARK, 0, END_MARK.length, payloadEnd, payloadEnd + END_MARK.length) === 0;
  if (!markOk || crc32(payload) !== header.payloadCrc) {
    return classifyBadBody(log, position, Math.min(end, log.length), payloadEnd);
  }
  if (!isZero(log, payloadEnd + END_MARK.length, Math.min(end, log.length))) {
    return { is: 'corrupt', why: 'bytes after the end mark' };
  }
  return { is: 'frame', header, payload, end };
}

function classifyBadHeader(log: Buffer, position: number): FrameRead {
  if (position + HEADER_BYTES > log.length) {
    const present = log.subarray(position, Math.min(position + MAGIC.length, log.length));
    const fits = present.compare(MAGIC.subarray(0, present.length)) === 0;
    return fits
      ? { is: 'torn', why: 'the file ends inside a frame header' }
      : { is: 'corrupt', why: 'the bytes are no frame header' };
  }
  if (isZero(log, position, Math.min(position + SECTOR_BYTES, log.length))) {
    return { is: 'torn', why: 'the first sector of the frame was not written' };
  }
  // The last byte of the header was not written, nor was anything after it. If that byte is not zero, the header was
  // written to its end and must match its checksum. A checksum that ends in a zero byte looks unwritten, too; such a
  // header counts as torn, because no payload follows it.
  if (isZero(log, position + HEADER_BYTES, log.length) && log[position + HEADER_BYTES - 1] === 0) {
    return { is: 'torn', why: 'the frame stops inside its header' };
  }
  return { is: 'corrupt', why: 'the frame header does not match its checksum' };
}

function classifyBadBody(log: Buffer, position: number, end: number, payloadEnd: number): FrameRead {
  for (let sector = position; sector < end; sector += SECTOR_BYTES) {
    if (isZero(log, sector, Math.min(sector + SECTOR_BYTES, end))) {
      return { is: 'torn', why: 'a sector of the frame was not written' };
    }
  }
  // No byte of the end mark is zero: a zero in the place of its last byte was never written.
  if (log[payloadEnd + END_MARK.length - 1] === 0) return { is: 'torn', why: 'the frame has no end' };
  return { is: 'corrupt', why: 'the frame does not match its checksum' };
}

/** The position of the next valid frame header. If there is one, damage before it is not the end of the log. */
export function findFrameAfter(log: Buffer, position: number): number | undefined {
  for (let sector = alignUp(position + 1); sector < log.length; sector += SECTOR_BYTES) {
    if (readHeader(log, sector)) return sector;
  }
  return undefined;
}
