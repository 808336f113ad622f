/** The output of a command, which it writes to its files itself: the bounds on it, and what its end says of it. */
import fs from 'node:fs';
import { promisify } from 'node:util';
import { openPrivate } from '../../../kit/env/private-files.ts';
import { realEnv } from '../../../kit/env/real.ts';
import { openRegular } from '../../../kit/env/regular-file.ts';
import { JsonFaultError, parseInSlices } from '../../../kit/json-parser.ts';
import { atOnce, inSlices, ONE_TURN_BYTES } from '../../../kit/slices.ts';
import { type ExitRecord, MAX_RESULT_BYTES, type TokenPaths } from './layout.ts';
import { fsync } from './token-folder.ts';

const STDERR_TAIL_BYTES = 8 * 1024;
/** A longer file with what the command wrote to standard error is emptied; its tail is kept in memory. */
const MAX_STDERR_BYTES = 1024 * 1024;
/** Output that grew by this part of its bound between two looks is looked at more often. */
const FAST_PART = 1 / 64;

/** The smallest block of usual file systems. */
const BLOCK_BYTES = 1024;

export class OutputWatch {
  readonly maxBytes: number;
  readonly #paths: TokenPaths;
  #lastBytes = 0;
  /**
   * At a look the file system had no space left, and the output ended with a block: what the command wrote next may be
   * missing. Output that ended within a block had all that was written so far: a write fills the block before it fails.
   */
  mayLack = false;
  #emptiedTail: Buffer = Buffer.alloc(0);

  constructor(paths: TokenPaths, maxBytes: number) {
    this.#paths = paths;
    this.maxBytes = maxBytes;
  }

  get message(): string {
    return `it wrote more than ${this.maxBytes} bytes`;
  }

  look(): { readonly isTooLong: boolean; readonly isFast: boolean } {
    const bytes = sizeOf(this.#paths.stdout);
    const isFast = bytes - this.#lastBytes > this.maxBytes * FAST_PART;
    this.#lastBytes = bytes;
    this.mayLack ||= bytes % BLOCK_BYTES === 0 && isFull(this.#paths.folder);
    if (sizeOf(this.#paths.stderr) > MAX_STDERR_BYTES) this.#emptyStderr();
    return { isTooLong: bytes > this.maxBytes, isFast };
  }

  /** The end of what the command wrote to standard error. */
  stderrTail(): string {
    const all = Buffer.concat([this.#emptiedTail, tailOf(this.#paths.stderr)]);
    return all.subarray(-STDERR_TAIL_BYTES).toString();
  }

  #emptyStderr(): void {
    this.#emptiedTail = tailOf(this.#paths.stderr);
    try {
      // The command appends, so what it writes next is at the beginning of the file.
      fs.truncateSync(this.#paths.stderr, 0);
    } catch {
      // The next look tries it again.
    }
  }
}

/** 0 where there is no file. */
function sizeOf(path: string): number {
  try {
    return fs.statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  } catch {
    return 0;
  }
}

/** Whether a file is known not to exist; an error of the disk tells nothing about that. */
export function isMissing(path: string): boolean {
  try {
    return fs.statSync(path, { throwIfNoEntry: false }) === undefined;
  } catch {
    return false;
  }
}

function tailOf(path: string): Buffer {
  try {
    const fd = openRegular(path);
    try {
      const { size } = fs.fstatSync(fd);
      const bytes = Buffer.alloc(Math.min(size, STDERR_TAIL_BYTES));
      return bytes.subarray(0, fs.readSync(fd, bytes, 0, bytes.length, size - bytes.length));
    } finally {
      fs.closeSync(fd);
    }
  } catch {
    return Buffer.alloc(0);
  }
}

/** Cuts the output at its bound, and returns what `exit.json` says about it. */
export async function cutOutput(
  { stdout, folder }: TokenPaths,
  watch: OutputWatch,
  { why, code, message }: ExitRecord,
): Promise<Partial<ExitRecord>> {
  if (!isRegular(stdout)) {
    // The command has removed or replaced it: what it wrote is gone, and readers need a file.
    fs.rmSync(stdout, { recursive: true, force: true });
    fs.closeSync(openPrivate(stdout, 'a'));
    return { output_bytes: 0, ...(why === 'exit' ? { why: 'disk' } : {}) };
  }
  const bytes = fs.statSync(stdout).size;
  if (bytes > watch.maxBytes) {
    fs.truncateSync(stdout, watch.maxBytes);
    const isOutput = why === 'exit' || why === 'output';
    return {
      output_bytes: watch.maxBytes,
      ...(isOutput ? { why: 'output', message: watch.message } : message === undefined ? {} : { message }),
    };
  }
  if (why !== 'exit') return { output_bytes: bytes };
  // The command has got the error itself, and may have ignored it.
  if ((bytes > 0 || code !== 0) && (watch.mayLack || isFull(folder)))
    return { output_bytes: bytes, why: 'disk' };
  const isJson = code === 0 && bytes > 1 && bytes <= MAX_RESULT_BYTES && (await isJsonFile(stdout, bytes));
  return { output_bytes: bytes, ...(isJson ? { is_json: true } : {}) };
}

/** Whether the file system has no space left for this process; false where that cannot be learned. */
function isFull(folder: string): boolean {
  try {
    const { bavail, bfree, blocks } = fs.statfsSync(folder);
    return blocks > 0 && (process.getuid?.() === 0 ? bfree : bavail) === 0;
  } catch {
    return false;
  }
}

const isRegular = (path: string): boolean => fs.lstatSync(path, { throwIfNoEntry: false })?.isFile() ?? false;

const read = promisify(fs.read);

/** Whether the whole file is a JSON object or array, within the bounds on the values of callers (kit/depth.ts). */
async function isJsonFile(path: string, bytes: number): Promise<boolean> {
  const fd = openRegular(path);
  let text: string;
  try {
    const buffer = Buffer.alloc(bytes);
    const { bytesRead } = await read(fd, buffer, 0, bytes, 0);
    text = buffer.toString('utf8', 0, bytesRead);
  } finally {
    fs.closeSync(fd);
  }
  if (!/^\s*[[{]/.test(text)) return false;
  try {
    const parsing = parseInSlices(text);
    if (bytes <= ONE_TURN_BYTES) atOnce(parsing);
    else await inSlices(parsing, realEnv().timers);
    return true;
  } catch (error) {
    if (error instanceof JsonFaultError) return false;
    throw error;
  }
}

export async function syncOutput(path: string): Promise<void> {
  const fd = openRegular(path);
  try {
    // The name of an empty file is on stable storage since the folder was created.
    if (fs.fstatSync(fd).size > 0) await fsync(fd);
  } finally {
    fs.closeSync(fd);
  }
}
