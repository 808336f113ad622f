/** The highest epoch of each owner, on disk: a restarted manager must not obey a brain that was replaced. */
import type { IncomingHttpHeaders } from 'node:http';
import type { Env } from '../../kit/env/env.ts';
import { isObject, RecordFile, readRecord } from '../../kit/record-file.ts';
import type { Commander } from '../../model/worker-wire.ts';
import { Epochs } from '../../wire/epochs.ts';
import type { PoolLayout } from './layout.ts';

/** Owner → the highest epoch received from it. */
type KnownEpochs = Readonly<Record<string, number>>;

export class EpochFile {
  readonly #file: RecordFile<KnownEpochs>;
  readonly #epochs: Epochs;

  private constructor(file: RecordFile<KnownEpochs>) {
    this.#file = file;
    this.#epochs = new Epochs(Object.entries(file.value), (owner, epoch) => {
      file.keep({ [owner]: epoch }).catch(() => undefined);
    });
  }

  static async open(env: Env, layout: PoolLayout): Promise<EpochFile> {
    const record = await readRecord(env.disk, layout.epochs, isObject);
    const known = Object.entries(record ?? {}).filter(([, epoch]) => Number.isSafeInteger(epoch));
    return new EpochFile(new RecordFile(env, layout.epochs, Object.fromEntries(known) as KnownEpochs));
  }

  /** Throws FENCED for an epoch below the highest; settles when a new highest epoch is on stable storage. */
  async check(headers: IncomingHttpHeaders): Promise<Commander> {
    const who = this.#epochs.check(headers);
    await this.#file.settled();
    return who;
  }
}
