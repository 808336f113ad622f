/**
 * The upper limit of this disk: one event loop appends 300-byte records to a preallocated file, with one write and one
 * fdatasync for all that wait. orchd's rates are reported as a fraction of it.
 */
import fs from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type Bench, IN_FLIGHT, type Values } from '../kit/bench.ts';
import { inChild } from '../kit/child.ts';
import { steady } from '../kit/steady.ts';

const RECORD = Buffer.alloc(300, 'x');
const FILE_BYTES = 64 * 2 ** 20;

const write = promisify(fs.write);
const fdatasync = promisify(fs.fdatasync);

interface Args {
  readonly folder: string;
  readonly inFlight: number;
  readonly warmMs: number;
  readonly measureMs: number;
}

class RawLog {
  readonly #fd: number;
  #position = 0;
  #waiting: (() => void)[] = [];
  #busy = false;
  syncs = 0;

  constructor(path: string) {
    this.#fd = fs.openSync(path, 'w');
    const zeros = Buffer.alloc(2 ** 20);
    for (let at = 0; at < FILE_BYTES; at += zeros.length) fs.writeSync(this.#fd, zeros, 0, zeros.length, at);
    fs.fsyncSync(this.#fd);
  }

  append(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
      if (this.#busy) return;
      this.#busy = true;
      setImmediate(() => void this.#flushAll());
    });
  }

  close(): void {
    fs.closeSync(this.#fd);
  }

  async #flushAll(): Promise<void> {
    while (this.#waiting.length > 0) {
      const waiting = this.#waiting;
      this.#waiting = [];
      const bytes = Buffer.concat(waiting.map(() => RECORD));
      if (this.#position + bytes.length > FILE_BYTES) this.#position = 0;
      await write(this.#fd, bytes, 0, bytes.length, this.#position);
      await fdatasync(this.#fd);
      this.#position += bytes.length;
      this.syncs++;
      for (const resolve of waiting) resolve();
      // The callers just answered append again within this turn, so that the next write includes all of them.
      await new Promise((resolve) => setImmediate(resolve));
    }
    this.#busy = false;
  }
}

export async function measure({ folder, ...load }: Args): Promise<Values> {
  fs.mkdirSync(folder, { recursive: true });
  const log = new RawLog(join(folder, 'raw.log'));
  const values = await steady({ ...load, folder, syncs: () => log.syncs }, () => log.append());
  log.close();
  return values;
}

export const bench: Bench = {
  name: 'raw',
  title: 'raw group commit of this disk (300-byte records, preallocated file)',
  rounds: 'every',
  async run(options) {
    const rows = [];
    for (const inFlight of IN_FLIGHT) {
      const args = {
        folder: join(options.folder, 'raw'),
        inFlight,
        warmMs: 300,
        measureMs: options.quick ? 600 : 1200,
      };
      rows.push({ case: `raw@${inFlight}`, values: await inChild({ measure, url: import.meta.url }, args) });
    }
    return rows;
  },
};
