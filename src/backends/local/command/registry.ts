/** What a command backend remembers of itself: its identity, since when it remembers, and who commands it. */

import { join } from 'node:path';
import type { Env } from '../../../kit/env/env.ts';
import { readRecord, writeRecord } from '../../../kit/record-file.ts';
import type { Commander } from '../../../model/worker-wire.ts';
import { escaped, type Layout } from './layout.ts';

interface RegistryRecord {
  readonly id: string;
  readonly since: number;
}

const isRegistryRecord = (value: unknown): value is RegistryRecord => {
  const { id, since } = (value ?? {}) as Partial<RegistryRecord>;
  return typeof id === 'string' && typeof since === 'number';
};

export class Registry {
  readonly #env: Env;
  readonly #layout: Layout;
  #record: RegistryRecord = { id: '', since: Number.POSITIVE_INFINITY };

  constructor(env: Env, layout: Layout) {
    this.#env = env;
    this.#layout = layout;
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
    // Another one may have done the same at once.
    await this.#load();
  }

  async #load(): Promise<boolean> {
    const known = await readRecord(this.#env.disk, this.#layout.registry, isRegistryRecord);
    if (!known) return false;
    this.#record = known;
    return true;
  }

  /** Something that nobody had acknowledged is about to be forgotten. */
  async forgetBefore(at: number): Promise<void> {
    if (at > this.#record.since) await this.#put({ id: this.#record.id, since: at });
  }

  /**
   * Whether somebody newer has been heard. Every epoch is a file of its own: two brains that write at once
   * cannot take each other's back.
   */
  async isFenced({ owner, epoch }: Commander): Promise<boolean> {
    const { disk } = this.#env;
    const { epochs } = this.#layout;
    const prefix = `${escaped(owner)}+`;
    const heard = (await disk.list(epochs)).filter((name) => name.startsWith(prefix));
    const highest = Math.max(0, ...heard.map((name) => Number(name.slice(prefix.length)) || 0));
    if (epoch < highest) return true;
    if (epoch === highest) return false;
    const file = await disk.open(join(epochs, `${prefix}${epoch}`), 'create');
    await file.close();
    await disk.syncFolder(epochs);
    for (const name of heard) await disk.remove(join(epochs, name));
    return false;
  }

  async #put(record: RegistryRecord): Promise<void> {
    await writeRecord(this.#env, this.#layout.registry, record);
    this.#record = record;
  }
}
