/** The folder of `orchd consume`: who it is to the brain, and what it has claimed. One process at a time has it. */
import { join } from 'node:path';
import type { Env } from '../../kit/env/env.ts';
import { isObject, RecordFile, readRecord } from '../../kit/record-file.ts';
import { OrchdError } from '../../model/errors.ts';

const ID_BYTES = 16;
const NAME_BYTES = 6;

/** `consumer.json` */
export interface ConsumerState {
  readonly v: 1;
  readonly pool: string;
  readonly name: string;
  /** The secret of the registration. */
  readonly consumerId: string;
  /** Under this name the commands of the registration are kept: another brain may use the same tokens again. */
  readonly owner: string;
  /** The number of the last claim that may have been sent. The jobs of all earlier ones have been begun. */
  readonly claim: number;
  /** The tokens that are held, or were when the last claim was sent. */
  readonly held: readonly string[];
}

export class StateFolder {
  readonly commands: string;
  readonly #env: Env;
  readonly #file: RecordFile<ConsumerState>;
  readonly #release: () => Promise<void>;

  private constructor(
    env: Env,
    folder: string,
    file: RecordFile<ConsumerState>,
    release: () => Promise<void>,
  ) {
    this.#env = env;
    this.#file = file;
    this.#release = release;
    this.commands = join(folder, 'commands');
  }

  static async open(env: Env, folder: string, pool: string, name: string | undefined): Promise<StateFolder> {
    await env.disk.makeFolder(folder);
    const lock = await env.disk.lock(join(folder, 'lock'));
    if (!lock) throw new OrchdError('STORE_LOCKED', `another \`orchd consume\` has the folder ${folder}`);
    const path = join(folder, 'consumer.json');
    const known = await readRecord(env.disk, path, isConsumerState);
    if (known && (known.pool !== pool || (name !== undefined && known.name !== name))) {
      await lock.release();
      const message = `the folder ${folder} belongs to the consumer ${known.pool}/${known.name}`;
      throw new OrchdError('CONFIG_INVALID', message);
    }
    const fresh = { v: 1, pool, name: name ?? env.random.hex(NAME_BYTES), claim: 0, held: [] } as const;
    const state = known ?? { ...fresh, ...newIds(env) };
    const file = new RecordFile(env, path, state);
    await file.save({});
    return new StateFolder(env, folder, file, () => lock.release());
  }

  get state(): ConsumerState {
    return this.#file.value;
  }

  save(changes: Pick<ConsumerState, 'held'> & Partial<ConsumerState>): Promise<void> {
    return this.#file.save(changes);
  }

  /** For a registration that knows nothing of the earlier ones. */
  async renew(): Promise<string> {
    await this.#file.save({ ...newIds(this.#env), held: [] });
    return this.state.consumerId;
  }

  close(): Promise<void> {
    return this.#release();
  }
}

const newIds = ({ random }: Env): Pick<ConsumerState, 'consumerId' | 'owner'> => ({
  consumerId: random.hex(ID_BYTES),
  owner: random.hex(ID_BYTES),
});

function isConsumerState(value: unknown): value is ConsumerState {
  if (!isObject(value)) return false;
  const { v, pool, name, consumerId, owner, claim, held } = value as Partial<ConsumerState>;
  return (
    v === 1 &&
    [pool, name, consumerId, owner].every((text) => typeof text === 'string') &&
    Number.isSafeInteger(claim) &&
    Array.isArray(held)
  );
}
