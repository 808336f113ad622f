/**
 * Lines on their way to a file descriptor, many at a time and off the event loop. A reader of the log that stalls
 * stops no work: beyond a bound lines are dropped and counted.
 */
import fs from 'node:fs';

const MAX_WAITING_CHARS = 8 * 2 ** 20;
/** A line that comes soon after others waits this long for more: a write costs as much as a hundred lines. */
const GATHER_MS = 10;
const AGAIN_MS = 10;
/** How long the end of the process waits for a reader that is slow. */
const LAST_MS = 2000;

export class LineOutput {
  readonly #fd: number;
  #waiting: string[] = [];
  #chars = 0;
  #dropped = 0;
  #writing: Promise<void> | undefined;
  /** What a full pipe has not taken, while no write of it is under way. */
  #left: Buffer | undefined;

  constructor(fd: number) {
    this.#fd = fd;
  }

  write(line: string): void {
    if (this.#chars > MAX_WAITING_CHARS) {
      this.#dropped++;
      return;
    }
    this.#waiting.push(line);
    this.#chars += line.length;
    this.#writing ??= this.#writeAll();
  }

  /** Resolves when everything is out, or cannot be. */
  async flush(): Promise<void> {
    await this.#writing;
  }

  /** For the last moment of the process, when nothing asynchronous runs any more. */
  flushNow(): void {
    const bytes = Buffer.concat([this.#left ?? Buffer.alloc(0), Buffer.from(this.#take())]);
    const until = performance.now() + LAST_MS;
    // A pipe takes what it has room for, and no more.
    for (let at = 0; at < bytes.length && performance.now() < until; ) at += this.#writeNow(bytes, at);
  }

  #writeNow(bytes: Buffer, at: number): number {
    try {
      return fs.writeSync(this.#fd, bytes, at);
    } catch (error) {
      // The reader is gone, and so are we.
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') return bytes.length - at;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, AGAIN_MS);
      return 0;
    }
  }

  async #writeAll(): Promise<void> {
    // What is said in the same turn goes out together.
    await new Promise((resolve) => setImmediate(resolve));
    while (this.#waiting.length > 0) {
      const bytes = Buffer.from(this.#take());
      for (let at = 0; at < bytes.length; ) at += await this.#writeSome(bytes, at);
      await new Promise((resolve) => setTimeout(resolve, GATHER_MS));
    }
    this.#writing = undefined;
  }

  #take(): string {
    const text = this.#waiting.join('');
    this.#waiting = [];
    this.#chars = 0;
    const dropped = this.#dropped;
    this.#dropped = 0;
    if (dropped === 0) return text;
    const note = { level: 'warn', message: 'lines of the log were dropped', app: 'orchd', count: dropped };
    return `${text}${JSON.stringify(note)}\n`;
  }

  /** A log that nobody can read is no reason to stop: what cannot be written counts as written. */
  #writeSome(bytes: Buffer, at: number): Promise<number> {
    return new Promise((resolve) => {
      fs.write(this.#fd, bytes, at, bytes.length - at, null, (error, written) => {
        if (!error) resolve(written);
        else if (error.code === 'EAGAIN') void this.#again(bytes.subarray(at)).then(resolve);
        else resolve(bytes.length - at);
      });
    });
  }

  /** Waits for room; resolves to nothing written. */
  async #again(left: Buffer): Promise<number> {
    this.#left = left;
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
    this.#left = undefined;
    return 0;
  }
}
