/** Who has commanded, on disk: a manager that starts again does not listen to a brain that was replaced. */
import type { IncomingHttpHeaders } from 'node:http';
import { readRecord, writeRecord } from '../../backends/local/command/registry.ts';
import type { Env } from '../../kit/env/env.ts';
import type { Commander } from '../../model/worker-wire.ts';
import { Epochs } from '../../wire/epochs.ts';
import type { PoolLayout } from './layout.ts';

export class EpochFile {
  readonly #env: Env;
  readonly #layout: PoolLayout;
  readonly #known: Map<string, number>;
  readonly #epochs: Epochs;
  #written: Promise<void> = Promise.resolve();

  private constructor(env: Env, layout: PoolLayout, known: Map<string, number>) {
    this.#env = env;
    this.#layout = layout;
    this.#known = known;
    this.#epochs = new Epochs(known, (owner, epoch) => this.#raise(owner, epoch));
  }

  static async open(env: Env, layout: PoolLayout): Promise<EpochFile> {
    const record = await readRecord<Record<string, unknown>>(env.disk, layout.epochs);
    const known = Object.entries(record ?? {}).filter(([, epoch]) => Number.isSafeInteger(epoch));
    return new EpochFile(env, layout, new Map(known as [string, number][]));
  }

  /** Settles when whatever is new of it is on stable storage. */
  async check(headers: IncomingHttpHeaders): Promise<Commander> {
    const who = this.#epochs.check(headers);
    await this.#written;
    return who;
  }

  #raise(owner: string, epoch: number): void {
    this.#known.set(owner, epoch);
    const write = this.#written
      .catch(() => undefined)
      .then(() =>
        writeRecord(this.#env, this.#layout.epochs, Object.fromEntries(this.#known), this.#layout.folder),
      );
    write.catch(() => undefined);
    this.#written = write;
  }
}
