/**
 * Writes log lines to a file descriptor, many lines per write and off the event loop. A stalled reader of the log holds
 * up no work: when more than MAX_WAITING_CHARS wait, further lines are dropped and counted.
 */
import fs from 'node:fs';

const MAX_WAITING_CHARS = 8 * 2 ** 20;
/** The pause between two writes, in which lines collect: one write costs as much as formatting a hundred lines. */
const GATHER_MS = 10;
/** The pause before a write to a full pipe is retried. */
const RETRY_MS = 10;
/** The longest that the end of the process waits for a slow reader. */
const FINAL_FLUSH_MS = 2000;

export class LineOutput {
  readonly #fd: number;
  #waiting: string[] = [];
  #chars = 0;
  #dropped = 0;
  #writing: Promise<void> | undefined;
  /** The bytes that a full pipe has not accepted, set while the write waits to be retried. */
  #unwritten: Buffer | undefined;

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

  /** Resolves when every line was written, or cannot be written. */
  async flush(): Promise<void> {
    await this.#writing;
  }

  /** Writes synchronously, for the exit handler of the process, where nothing asynchronous runs any more. */
  flushNow(): void {
    const bytes = Buffer.concat([this.#unwritten ?? Buffer.alloc(0), Buffer.from(this.#take())]);
    const until = performance.now() + FINAL_FLUSH_MS;
    // A pipe accepts only as many bytes as it has room for.
    for (let at = 0; at < bytes.length && performance.now() < until; ) at += this.#writeNow(bytes, at);
  }

  #writeNow(bytes: Buffer, at: number): number {
    try {
      return fs.writeSync(this.#fd, bytes, at);
    } catch (error) {
      // The reader is gone: report the rest as written, which ends the loop.
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') return bytes.length - at;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, RETRY_MS);
      return 0;
    }
  }

  async #writeAll(): Promise<void> {
    // Lines logged in the same turn of the event loop go out in one write.
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

  /** Bytes that cannot be written count as written: a broken log is no reason to stop the process. */
  #writeSome(bytes: Buffer, at: number): Promise<number> {
    return new Promise((resolve) => {
      fs.write(this.#fd, bytes, at, bytes.length - at, null, (error, written) => {
        if (!error) resolve(written);
        else if (error.code === 'EAGAIN') void this.#waitForRoom(bytes.subarray(at)).then(resolve);
        else resolve(bytes.length - at);
      });
    });
  }

  /** Waits for the pipe to drain a little; resolves to 0 bytes written, so that the caller retries. */
  async #waitForRoom(unwritten: Buffer): Promise<number> {
    this.#unwritten = unwritten;
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    this.#unwritten = undefined;
    return 0;
  }
}
