/**
 * A disk on which every operation of every process waits for its turn. The test gives the turns, so that it can let two
 * processes interleave in any way, and kill one before any of its operations or in the middle of a write.
 */
import type { Disk, DiskEntry, DiskFile, OpenMode } from '../../../src/kit/env/env.ts';
import type { SimFile } from '../../fakes/sim-file.ts';
import type { SimTree } from '../../fakes/sim-tree.ts';

export interface Operation {
  readonly name: string;
  /** Whether the disk is another one afterwards. */
  readonly changes: boolean;
  readonly run: () => void;
  /** Does half of a write. */
  readonly tear?: (() => void) | undefined;
}

/** Takes an operation of a process, and carries it out when it is its turn. */
export type Enqueue = (operation: Operation) => void;

/** Called after each rename, at the same instant. */
export type OnRename = (to: string) => void;

export function stepDisk(tree: SimTree, now: () => number, enqueue: Enqueue, onRename: OnRename): Disk {
  const call = <T>(
    name: string,
    run: () => T,
    { changes = true, tear }: { changes?: boolean; tear?: () => void } = {},
  ) =>
    new Promise<T>((resolve, reject) => {
      const carryOut = (): void => {
        try {
          resolve(run());
        } catch (error) {
          reject(error as Error);
        }
      };
      enqueue({ name, changes, run: carryOut, tear });
    });
  const look = <T>(name: string, run: () => T): Promise<T> => call(name, run, { changes: false });
  return {
    open: (path, mode) =>
      call(`open-${mode} ${path}`, () => handleOf(path, mode), {
        changes: mode !== 'plain' && mode !== 'read',
      }),
    list: (folder) => look(`list ${folder}`, () => tree.entries(folder).map(({ name }) => name)),
    async *entries(folder): AsyncGenerator<readonly DiskEntry[]> {
      yield await look(`entries ${folder}`, () => tree.entries(folder));
    },
    stat: (path) => look(`stat ${path}`, () => statOf(tree, path)),
    lstat: (path) => look(`lstat ${path}`, () => tree.lstat(path)),
    rename: (from, to) =>
      call(`rename ${from} ${to}`, () => {
        tree.rename(from, to);
        onRename(to);
      }),
    remove: (path) => call(`remove ${path}`, () => tree.remove(path)),
    removeFolder: (path) => call(`removeFolder ${path}`, () => tree.removeFolder(path)),
    makeFolder: (path) => call(`makeFolder ${path}`, () => tree.makeFolder(path)),
    makeNewFolder: (path) => call(`makeNewFolder ${path}`, () => tree.makeNewFolder(path)),
    touch: (path) => call(`touch ${path}`, () => tree.touch(path)),
    syncFolder: (path) => call(`syncFolder ${path}`, () => tree.syncFolder(path)),
    lock: () => Promise.reject(new Error('a spool has no such locks')),
  };

  function handleOf(path: string, mode: OpenMode): DiskFile {
    const file: SimFile = tree.open(path, mode);
    return {
      write: (at, data) => {
        const bytes = Buffer.from(data);
        const position = (): number => (mode === 'append' ? file.content.length : at);
        const tear = (): void => tree.write(file, position(), bytes.subarray(0, bytes.length >> 1));
        return call(`write ${path}`, () => tree.write(file, position(), bytes), { tear });
      },
      read: (at, length) => look(`read ${path}`, () => Buffer.from(file.content.subarray(at, at + length))),
      size: () => look(`size ${path}`, () => file.content.length),
      truncate: (size) => call(`truncate ${path}`, () => file.apply({ is: 'truncate', size }, now())),
      datasync: () => call(`datasync ${path}`, () => file.settle(file.pending.length)),
      // The end of a process closes its files too.
      close: () => Promise.resolve(),
    };
  }
}

const statOf = (tree: SimTree, path: string) => {
  const stat = tree.lstat(path);
  return stat && { size: stat.size, isFolder: stat.kind === 'folder' };
};
