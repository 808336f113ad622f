/**
 * A value that one thread replaces, and another reads when it needs it. Nothing is sent for that, so the reader is not
 * woken: a consumer of short jobs changes what it holds thousands of times between two heartbeats.
 */
const VERSION = 0;
const LENGTH = 1;
const HEADER_BYTES = 8;
const FIRST_BYTES = 64 * 1024;
/** Address space alone: memory is used as far as it was written. */
const MAX_BYTES = 16 * 2 ** 20;

export class SharedValue<T> {
  readonly memory: SharedArrayBuffer;
  /** Its version is odd while the value is being replaced. */
  readonly #header: Int32Array;

  /** With the memory of another one, it is the same value. */
  constructor(memory = new SharedArrayBuffer(FIRST_BYTES, { maxByteLength: MAX_BYTES })) {
    this.memory = memory;
    this.#header = new Int32Array(memory, 0, HEADER_BYTES / Int32Array.BYTES_PER_ELEMENT);
  }

  set(value: T): void {
    const text = Buffer.from(JSON.stringify(value));
    const needed = HEADER_BYTES + text.length;
    if (needed > this.memory.byteLength) this.memory.grow(Math.min(2 * needed, MAX_BYTES));
    Atomics.add(this.#header, VERSION, 1);
    text.copy(this.#bytes(text.length));
    Atomics.store(this.#header, LENGTH, text.length);
    Atomics.add(this.#header, VERSION, 1);
  }

  /** Undefined before the first one was set. */
  get(): T | undefined {
    for (;;) {
      const version = Atomics.load(this.#header, VERSION);
      if (version === 0) return undefined;
      const text = Buffer.from(this.#bytes(Atomics.load(this.#header, LENGTH))).toString();
      const isWhole = version % 2 === 0 && Atomics.load(this.#header, VERSION) === version;
      if (isWhole) return JSON.parse(text) as T;
    }
  }

  #bytes(length: number): Uint8Array {
    return new Uint8Array(this.memory, HEADER_BYTES, length);
  }
}
