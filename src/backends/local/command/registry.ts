/**
 * The durable identity of a command backend's memory: `registry.json` with its id and the time since which it remembers
 * every token, and the highest epoch of each owner.
 */

import type { Env } from '../../../kit/env/env.ts';
import { readRecord, writeRecord } from '../../../kit/record-file.ts';
import { OpeningFiles } from '../../opening-files.ts';
import type { Layout } from './layout.ts';

interface RegistryRecord {
  readonly id: string;
  readonly since: number;
}

const isRegistryRecord = (value: unknown): value is RegistryRecord => {
  const { id, since } = (value ?? {}) as Partial<RegistryRecord>;
  return typeof id === 'string' && typeof since === 'number';
};

export class CommandRegistry {
  readonly #env: Env;
  readonly #layout: Layout;
  #record: RegistryRecord = { id: '', since: Number.POSITIVE_INFINITY };
  /** The fence. */
  readonly openings: OpeningFiles;

  constructor(env: Env, layout: Layout) {
    this.#env = env;
    this.#layout = layout;
    this.openings = new OpeningFiles(env.disk, layout.epochs);
  }

  get id(): string {
    return this.#record.id;
  }

  get since(): number {
    return this.#record.since;
  }

  async open(): Promise<void> {
    const { clock, random } = this.#env;
    if (await this.#load()) return;
    await this.#put({ id: random.hex(8), since: clock.now() });
    // Read back: another process may have written its own at the same time, and the last write counts.
    await this.#load();
  }

  async #load(): Promise<boolean> {
    const known = await readRecord(this.#env.disk, this.#layout.registry, isRegistryRecord);
    if (!known) return false;
    this.#record = known;
    return true;
  }

  /** Called before an unacknowledged execution is removed: tokens offered before `at` are not remembered any more. */
  async forgetBefore(at: number): Promise<void> {
    if (at > this.#record.since) await this.#put({ id: this.#record.id, since: at });
  }

  async #put(record: RegistryRecord): Promise<void> {
    await writeRecord(this.#env, this.#layout.registry, record);
    this.#record = record;
  }
}
