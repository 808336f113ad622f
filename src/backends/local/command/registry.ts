/**
 * The durable identity of a command backend's memory: `registry.json` with its id and the time since which it remembers
 * every token, and the highest epoch of each owner.
 */

import { join } from 'node:path';
import type { Env } from '../../../kit/env/env.ts';
import { readRecord, writeRecord } from '../../../kit/record-file.ts';
import type { Commander, Opening } from '../../../model/worker-wire.ts';
import { judgeOpening, type KnownOpenings } from '../../../wire/epochs.ts';
import { escaped, type Layout } from './layout.ts';

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
  /** The openings that this process has recorded, by owner. */
  readonly #openings = new Map<string, KnownOpenings>();

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

  /** The opening of this owner's store that commanded before the present one. */
  openingBefore(owner: string): Opening | undefined {
    return this.#openings.get(owner)?.before;
  }

  /**
   * Whether a higher epoch of the same owner, or another brain of the same epoch, has been received; records this one
   * where it is the highest. Every opening is a file of its own, so that two brains that write at the same time cannot
   * replace each other's.
   */
  async isFenced(who: Commander): Promise<boolean> {
    const { disk } = this.#env;
    const { epochs } = this.#layout;
    const prefix = `${escaped(who.owner)}+`;
    const files = (await disk.list(epochs)).filter((name) => name.startsWith(prefix));
    const recorded = files.map((name) => openingOf(name.slice(prefix.length)));
    const verdicts = recorded.map((known) => judgeOpening(known, who).is);
    if (verdicts.includes('fenced')) return true;
    if (verdicts.includes('current')) return false;
    this.#openings.set(who.owner, { ...who, before: recorded.sort((a, b) => b.epoch - a.epoch)[0] });
    const nonce = who.nonce === undefined ? '' : `+${escaped(who.nonce)}`;
    const file = await disk.open(join(epochs, `${prefix}${who.epoch}${nonce}`), 'create');
    await file.close();
    await disk.syncFolder(epochs);
    for (const name of files) await disk.remove(join(epochs, name));
    return false;
  }

  async #put(record: RegistryRecord): Promise<void> {
    await writeRecord(this.#env, this.#layout.registry, record);
    this.#record = record;
  }
}

/** The opening in the name of a file: its epoch and, since nonces exist, its nonce. */
function openingOf(text: string): Opening {
  const [epoch = '', nonce] = text.split('+');
  return { epoch: Number(epoch) || 0, nonce };
}
