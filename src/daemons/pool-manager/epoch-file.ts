/** The highest epoch of each owner, on disk: a restarted manager must not obey a brain that was replaced. */
import type { IncomingHttpHeaders } from 'node:http';
import type { Env } from '../../kit/env/env.ts';
import { isObject, RecordFile, readRecord } from '../../kit/record-file.ts';
import type { Commander } from '../../model/worker-wire.ts';
import { Epochs, type KnownOpenings } from '../../wire/epochs.ts';
import type { PoolLayout } from './layout.ts';

/** Owner → its last opening. A file of an older version has only the epoch. */
type KnownEpochs = Readonly<Record<string, KnownOpenings>>;

export class EpochFile {
  readonly #file: RecordFile<KnownEpochs>;
  readonly #epochs: Epochs;

  private constructor(file: RecordFile<KnownEpochs>) {
    this.#file = file;
    this.#epochs = new Epochs(Object.entries(file.value), (owner, openings) => {
      file.keep({ [owner]: openings }).catch(() => undefined);
    });
  }

  static async open(env: Env, layout: PoolLayout): Promise<EpochFile> {
    const record = await readRecord(env.disk, layout.epochs, isObject);
    const known = Object.entries(record ?? {})
      .map(([owner, value]) => [owner, openingsOf(value)] as const)
      .filter(([, openings]) => Number.isSafeInteger(openings.epoch));
    return new EpochFile(new RecordFile(env, layout.epochs, Object.fromEntries(known)));
  }

  /** Throws FENCED for an epoch below the highest; settles when a new highest epoch is on stable storage. */
  async check(headers: IncomingHttpHeaders): Promise<Commander> {
    const who = this.#epochs.check(headers);
    await this.#file.settled();
    return who;
  }
}

const openingsOf = (value: unknown): KnownOpenings =>
  typeof value === 'number' ? { epoch: value } : (value as KnownOpenings);
