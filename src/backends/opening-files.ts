/**
 * The fence of an executor whose memory is a folder: the highest epoch of each owner, as the names of files. Several
 * processes may share the folder.
 */
import { join } from 'node:path';
import type { Disk } from '../kit/env/env.ts';
import type { Commander, Opening } from '../model/worker-wire.ts';
import { judgeOpening, type KnownOpenings } from '../wire/epochs.ts';
import { escaped } from './local/command/layout.ts';

export class OpeningFiles {
  readonly #disk: Disk;
  readonly #folder: string;
  /** The openings that this process has recorded, by owner. */
  readonly #openings = new Map<string, KnownOpenings>();

  constructor(disk: Disk, folder: string) {
    this.#disk = disk;
    this.#folder = folder;
  }

  /** The opening of this owner's store that commanded before the present one. */
  openingBefore({ owner }: Pick<Commander, 'owner'>): { readonly openingBefore?: Opening } {
    const openingBefore = this.#openings.get(owner)?.before;
    return openingBefore ? { openingBefore } : {};
  }

  /**
   * Whether a higher epoch of the same owner, or another brain of the same epoch, has been received; records this one
   * where it is the highest. Every opening is a file of its own, so that two brains that write at the same time cannot
   * replace each other's.
   */
  async isFenced(who: Commander): Promise<boolean> {
    const prefix = `${escaped(who.owner)}+`;
    const files = (await this.#disk.list(this.#folder)).filter((name) => name.startsWith(prefix));
    const recorded = files.map((name) => openingOf(name.slice(prefix.length)));
    const verdicts = recorded.map((known) => judgeOpening(known, who).is);
    if (verdicts.includes('fenced')) return true;
    if (verdicts.includes('current')) return false;
    this.#openings.set(who.owner, { ...who, before: recorded.sort((a, b) => b.epoch - a.epoch)[0] });
    const nonce = who.nonce === undefined ? '' : `+${escaped(who.nonce)}`;
    const file = await this.#disk.open(join(this.#folder, `${prefix}${who.epoch}${nonce}`), 'create');
    await file.close();
    await this.#disk.syncFolder(this.#folder);
    for (const name of files) await this.#disk.remove(join(this.#folder, name));
    return false;
  }
}

/** The opening in the name of a file: its epoch and, since nonces exist, its nonce. */
function openingOf(text: string): Opening {
  const [epoch = '', nonce] = text.split('+');
  return { epoch: Number(epoch) || 0, nonce };
}
