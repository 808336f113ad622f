/**
 * The files and folders of a simulated disk, without time: every call happens at once. It is as bad as a disk may be.
 *
 * T1  A name that was made, moved or removed can be lost at a power cut until the folders it concerns are synced: a move
 *     between two folders until both are. It is lost or kept as a whole.
 * T2  What is kept of one folder is a beginning of what was done there. A move that is kept keeps the moves of the same
 *     thing before it.
 * T3  What was written to a file can be lost sector by sector until the file is synced.
 */
import type { DiskEntry, EntryStat, OpenMode } from '../../src/kit/env/env.ts';
import { type Chance, SimFile } from './sim-file.ts';

export class SimFolder {
  readonly isFolder = true;
  readonly id: number;
  modifiedMs: number;
  readonly names = new Map<string, SimNode>();
  readonly platter = new Map<string, SimNode>();

  constructor(id: number, now: number) {
    this.id = id;
    this.modifiedMs = now;
  }
}

export type SimNode = SimFile | SimFolder;
type View = 'names' | 'platter';

/** A change of names: `node` loses the name `from` and gets the name `to`, where there are such. */
interface NameOp {
  readonly node: SimNode;
  readonly from?: { readonly folder: SimFolder; readonly name: string } | undefined;
  readonly to?: { readonly folder: SimFolder; readonly name: string } | undefined;
  /** The folders that were not synced since. */
  readonly unsynced: Set<SimFolder>;
}

export class SimDiskError extends Error {
  readonly code: string;

  constructor(code: string, path = '') {
    super(`simulated ${code} ${path}`);
    this.code = code;
  }
}

export const folderOf = (path: string): string => path.slice(0, path.lastIndexOf('/')) || '/';
const nameOf = (path: string): string => path.slice(path.lastIndexOf('/') + 1);

export class SimTree {
  readonly #now: () => number;
  #root: SimFolder;
  #ids = 0;
  #ops: NameOp[] = [];
  full = false;

  constructor(now: () => number) {
    this.#now = now;
    this.#root = new SimFolder(this.#ids++, 0);
  }

  open(path: string, mode: OpenMode): SimFile {
    const folder = this.#folder(folderOf(path));
    const found = folder.names.get(nameOf(path));
    if (found && mode === 'exclusive') throw new SimDiskError('EEXIST', path);
    if (found?.isFolder) throw new SimDiskError('EISDIR', path);
    if (found) {
      if (mode === 'create') found.apply({ is: 'truncate', size: 0 }, this.#now());
      return found;
    }
    if (mode === 'read' || mode === 'write' || mode === 'plain') throw new SimDiskError('ENOENT', path);
    // A full disk has no room for names either.
    if (this.full) throw new SimDiskError('ENOSPC', path);
    const file = new SimFile(this.#ids++, this.#now());
    this.#change({ node: file, to: { folder, name: nameOf(path) } });
    if (mode === 'create') file.apply({ is: 'truncate', size: 0 }, this.#now());
    return file;
  }

  write(file: SimFile, at: number, data: Buffer): void {
    if (this.full && at + data.length > file.content.length) {
      // As real disks do: part of it fits.
      const fits = Math.max(0, file.content.length - at);
      if (fits > 0) file.apply({ is: 'write', at, data: data.subarray(0, fits) }, this.#now());
      throw new SimDiskError('ENOSPC');
    }
    file.apply({ is: 'write', at, data }, this.#now());
  }

  find(path: string): SimNode | undefined {
    return find(this.#root, path);
  }

  entries(path: string): DiskEntry[] {
    const folder = this.#folder(path);
    return [...folder.names].map(([name, { isFolder }]) => ({
      name,
      kind: isFolder ? 'folder' : 'file',
      isText: true,
    }));
  }

  lstat(path: string): EntryStat | undefined {
    const node = this.find(path);
    if (!node) return undefined;
    const size = node.isFolder ? 0 : node.content.length;
    const kind = node.isFolder ? 'folder' : 'file';
    return { kind, size, device: 'sim', identity: String(node.id), modifiedMs: node.modifiedMs };
  }

  rename(from: string, to: string): void {
    const [source, target] = [this.#folder(folderOf(from)), this.#folder(folderOf(to))];
    const node = source.names.get(nameOf(from));
    if (!node) throw new SimDiskError('ENOENT', from);
    const replaced = target.names.get(nameOf(to));
    if (replaced === node) return;
    if (replaced?.isFolder && !node.isFolder) throw new SimDiskError('EISDIR', to);
    if (replaced && !replaced.isFolder && node.isFolder) throw new SimDiskError('ENOTDIR', to);
    if (replaced?.isFolder && replaced.names.size > 0) throw new SimDiskError('ENOTEMPTY', to);
    this.#change({
      node,
      from: { folder: source, name: nameOf(from) },
      to: { folder: target, name: nameOf(to) },
    });
  }

  remove(path: string): void {
    const parent = this.#parentOf(path);
    const node = parent?.names.get(nameOf(path));
    if (!parent || !node) return;
    if (node.isFolder) throw new SimDiskError('EISDIR', path);
    this.#change({ node, from: { folder: parent, name: nameOf(path) } });
  }

  removeFolder(path: string): void {
    const parent = this.#parentOf(path);
    const node = parent?.names.get(nameOf(path));
    if (!parent || !node) return;
    if (!node.isFolder) throw new SimDiskError('ENOTDIR', path);
    if (node.names.size > 0) throw new SimDiskError('ENOTEMPTY', path);
    this.#change({ node, from: { folder: parent, name: nameOf(path) } });
  }

  makeFolder(path: string): void {
    if (path === '/' || path === '.') return;
    const found = this.find(path);
    if (found?.isFolder) return;
    if (found) throw new SimDiskError('EEXIST', path);
    this.makeFolder(folderOf(path));
    this.makeNewFolder(path);
  }

  makeNewFolder(path: string): void {
    const parent = this.#folder(folderOf(path));
    if (parent.names.has(nameOf(path))) throw new SimDiskError('EEXIST', path);
    if (this.full) throw new SimDiskError('ENOSPC', path);
    const node = new SimFolder(this.#ids++, this.#now());
    this.#change({ node, to: { folder: parent, name: nameOf(path) } });
  }

  touch(path: string): void {
    const node = this.find(path);
    if (!node) throw new SimDiskError('ENOENT', path);
    node.modifiedMs = this.#now();
  }

  syncFolder(path: string): void {
    const folder = this.#folder(path);
    for (const { unsynced } of this.#ops) unsynced.delete(folder);
    const synced = this.#ops.filter(({ unsynced }) => unsynced.size === 0);
    // T2: what a synced move builds upon is kept with it.
    const moved = new Set(synced.map(({ node }) => node));
    const lastOf = (node: SimNode): number =>
      this.#ops.findLastIndex((op) => synced.includes(op) && op.node === node);
    const kept = this.#ops.filter(
      (op, at) => synced.includes(op) || (moved.has(op.node) && at < lastOf(op.node)),
    );
    for (const op of kept) apply(op, 'platter');
    this.#ops = this.#ops.filter((op) => !kept.includes(op));
  }

  /** The machine stops: only what was synced is sure to be there. */
  cutPower(chance: Chance): void {
    const lost = new Set<SimFolder | SimNode>();
    for (const op of this.#ops) {
      const concerned = [op.node, op.from?.folder, op.to?.folder].filter((each) => each !== undefined);
      // T2: nothing is kept of a folder behind what was lost there.
      if (concerned.some((each) => lost.has(each)) || !chance(0.5))
        for (const each of concerned) lost.add(each);
      else apply(op, 'platter');
    }
    this.#ops = [];
    for (const node of nodesOf(this.#root, 'platter')) {
      if (!node.isFolder) node.cutPower(chance);
      else {
        node.names.clear();
        for (const [name, each] of node.platter) node.names.set(name, each);
      }
    }
  }

  /** All files with their paths, and all folders. */
  *walk(folder = this.#root, path = ''): Generator<{ readonly path: string; readonly node: SimNode }> {
    for (const [name, node] of folder.names) {
      yield { path: `${path}/${name}`, node };
      if (node.isFolder) yield* this.walk(node, `${path}/${name}`);
    }
  }

  /** Puts other files in the place of everything, all of it synced. */
  replace(files: ReadonlyMap<string, Buffer>): void {
    const isFull = this.full;
    this.full = false;
    this.#ops = [];
    this.#root = new SimFolder(this.#ids++, 0);
    for (const [path, content] of files) {
      this.makeFolder(folderOf(path));
      const file = this.open(path, 'create');
      file.apply({ is: 'write', at: 0, data: Buffer.from(content) }, this.#now());
      file.settle(file.pending.length);
    }
    for (const op of this.#ops) apply(op, 'platter');
    this.#ops = [];
    this.full = isFull;
  }

  /** The folder that a name is in, where it exists. */
  #parentOf(path: string): SimFolder | undefined {
    return this.find(folderOf(path)) && this.#folder(folderOf(path));
  }

  #folder(path: string): SimFolder {
    const node = this.find(path);
    if (!node) throw new SimDiskError('ENOENT', path);
    if (!node.isFolder) throw new SimDiskError('ENOTDIR', path);
    return node;
  }

  #change(change: Omit<NameOp, 'unsynced'>): void {
    const folders = [change.from?.folder, change.to?.folder].filter((each) => each !== undefined);
    const op: NameOp = { ...change, unsynced: new Set(folders) };
    apply(op, 'names');
    for (const folder of folders) folder.modifiedMs = this.#now();
    this.#ops.push(op);
  }
}

function apply({ node, from, to }: NameOp, view: View): void {
  // The name may belong to something else by now, where an operation before this one was lost.
  if (from?.folder[view].get(from.name) === node) from.folder[view].delete(from.name);
  to?.folder[view].set(to.name, node);
}

function find(root: SimFolder, path: string): SimNode | undefined {
  let node: SimNode = root;
  for (const name of path.split('/')) {
    if (name === '' || name === '.') continue;
    const next: SimNode | undefined = node.isFolder ? node.names.get(name) : undefined;
    if (!next) return undefined;
    node = next;
  }
  return node;
}

function* nodesOf(folder: SimFolder, view: View): Generator<SimNode> {
  yield folder;
  for (const node of folder[view].values())
    if (node.isFolder) yield* nodesOf(node, view);
    else yield node;
}
