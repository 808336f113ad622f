/**
 * Decides whether the disk counts as full. Three writers share it: the log (its frames and its next segment), the blob
 * files and the history.
 *
 * F1  The disk counts as full while the last write of any of them failed for lack of space. Each writer tries again by
 *     itself, with at least the size that failed, and reports when that works.
 */
export type DiskWriter = 'log' | 'blobs' | 'history';

export class DiskSpace {
  readonly #onChange: (isFull: boolean) => void;
  /** The writers whose last write found no space. */
  readonly #without = new Set<DiskWriter>();

  constructor(onChange: (isFull: boolean) => void) {
    this.#onChange = onChange;
  }

  /** A function by which one writer reports that it finds no space, or finds some again. */
  reportOf(writer: DiskWriter): (isFull: boolean) => void {
    return (isFull) => {
      const wasFull = this.#without.size > 0;
      if (isFull) this.#without.add(writer);
      else this.#without.delete(writer);
      const isFullNow = this.#without.size > 0;
      if (isFullNow !== wasFull) this.#onChange(isFullNow);
    };
  }
}
