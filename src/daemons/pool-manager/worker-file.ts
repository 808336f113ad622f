/** The record of one worker on disk, with its log beside it. */
import { diskErrorCode, type Env } from '../../kit/env/env.ts';
import { RecordFile } from '../../kit/record-file.ts';
import { OrchdError } from '../../model/errors.ts';
import { logPath, type PoolLayout, recordPath, type WorkerRecord } from './layout.ts';

export class WorkerFile {
  readonly #env: Env;
  readonly #log: string;
  readonly #file: RecordFile<WorkerRecord>;

  constructor(env: Env, layout: PoolLayout, record: WorkerRecord) {
    this.#env = env;
    this.#log = logPath(layout, record.id);
    this.#file = new RecordFile(env, recordPath(layout, record.id), record);
  }

  get record(): WorkerRecord {
    return this.#file.value;
  }

  /** Counts at once, and is taken back where it cannot be written; settles when it is on stable storage. */
  save(changes: Partial<WorkerRecord>): Promise<void> {
    return this.#file.save(changes).catch(refuse);
  }

  /** Counts whether or not it can be written: what it says has happened already. */
  keep(changes: Partial<WorkerRecord>): Promise<void> {
    return this.#file.keep(changes).catch(refuse);
  }

  /** Settles when what counts now is on stable storage. */
  settled(): Promise<void> {
    return this.#file.settled().catch(refuse);
  }

  async remove(): Promise<void> {
    await this.#file.remove();
    await this.#env.disk.remove(this.#log);
  }
}

function refuse(error: unknown): never {
  const full = diskErrorCode(error) === 'ENOSPC';
  throw new OrchdError(full ? 'STORE_FULL' : 'STORE_FAILED', undefined, {}, { cause: error });
}
