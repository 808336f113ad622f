/** The file of one worker: changes are written one after the other, so that the last one stays. */
import { writeRecord } from '../../backends/local/command/registry.ts';
import { diskErrorCode, type Env } from '../../kit/env/env.ts';
import { OrchdError } from '../../model/errors.ts';
import { logPath, type PoolLayout, recordPath, type WorkerRecord } from './layout.ts';

export class RecordFile {
  readonly #env: Env;
  readonly #layout: PoolLayout;
  #record: WorkerRecord;
  #written: Promise<void> = Promise.resolve();

  constructor(env: Env, layout: PoolLayout, record: WorkerRecord) {
    this.#env = env;
    this.#layout = layout;
    this.#record = record;
  }

  get record(): WorkerRecord {
    return this.#record;
  }

  /** Counts at once, and is taken back where it cannot be written; settles when it is on stable storage. */
  save(changes: Partial<WorkerRecord>): Promise<void> {
    const before: Partial<WorkerRecord> = this.#record;
    return this.keep(changes).catch((error: unknown) => {
      const keys = Object.keys(changes) as (keyof WorkerRecord)[];
      // What has changed again since then is not ours to take back.
      const own = keys.filter((key) => this.#record[key] === changes[key]);
      this.#record = { ...this.#record, ...Object.fromEntries(own.map((key) => [key, before[key]])) };
      throw error;
    });
  }

  /** Counts whether or not it can be written: the world has changed already. */
  keep(changes: Partial<WorkerRecord>): Promise<void> {
    this.#record = { ...this.#record, ...changes };
    const write = this.#written.catch(() => undefined).then(() => this.#write());
    write.catch(() => undefined);
    this.#written = write;
    return write;
  }

  /** Settles when what counts now is on stable storage. */
  settled(): Promise<void> {
    return this.#written;
  }

  async remove(): Promise<void> {
    await this.#written.catch(() => undefined);
    const { disk } = this.#env;
    await disk.remove(recordPath(this.#layout, this.#record.id));
    await disk.syncFolder(this.#layout.workers);
    await disk.remove(logPath(this.#layout, this.#record.id));
  }

  async #write(): Promise<void> {
    try {
      await writeRecord(
        this.#env,
        recordPath(this.#layout, this.#record.id),
        this.#record,
        this.#layout.workers,
      );
    } catch (error) {
      const full = diskErrorCode(error) === 'ENOSPC';
      throw new OrchdError(full ? 'STORE_FULL' : 'STORE_FAILED', undefined, {}, { cause: error });
    }
  }
}
