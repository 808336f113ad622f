/** The record of one worker on disk, which is removed together with the worker's log. Disk errors become OrchdErrors. */
import { diskErrorCode, type Env } from '../../kit/env/env.ts';
import { RecordFile } from '../../kit/record-file.ts';
import { OrchdError } from '../../model/errors.ts';
import { logPath, type ManagedWorkerRecord, type PoolLayout, recordPath } from './layout.ts';

export class WorkerFile {
  readonly #env: Env;
  readonly #log: string;
  readonly #file: RecordFile<ManagedWorkerRecord>;

  constructor(env: Env, layout: PoolLayout, record: ManagedWorkerRecord) {
    this.#env = env;
    this.#log = logPath(layout, record.id);
    this.#file = new RecordFile(env, recordPath(layout, record.id), record);
  }

  get record(): ManagedWorkerRecord {
    return this.#file.value;
  }

  /** Changes the record at once, and undoes it where the write fails; settles when it is on stable storage. */
  save(changes: Partial<ManagedWorkerRecord>): Promise<void> {
    return this.#file.save(changes).catch(throwStoreError);
  }

  /** Changes the record for good, even where the write fails: for facts that have happened already. */
  keep(changes: Partial<ManagedWorkerRecord>): Promise<void> {
    return this.#file.keep(changes).catch(throwStoreError);
  }

  /** Settles when the current record is on stable storage. */
  settled(): Promise<void> {
    return this.#file.settled().catch(throwStoreError);
  }

  async remove(): Promise<void> {
    await this.#file.remove();
    await this.#env.disk.remove(this.#log);
  }
}

function throwStoreError(error: unknown): never {
  const full = diskErrorCode(error) === 'ENOSPC';
  throw new OrchdError(full ? 'STORE_FULL' : 'STORE_FAILED', undefined, {}, { cause: error });
}
