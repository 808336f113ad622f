/**
 * A spool on a real disk, for processes that are really killed. The ledger is a file outside of the spool. Whatever the
 * process of the test does itself, it does under pids that nobody has, so that it counts as dead afterwards.
 */
import fs from 'node:fs';
import { join, relative } from 'node:path';
import type { Env } from '../../../src/kit/env/env.ts';
import { realEnv } from '../../../src/kit/env/real.ts';
import { RealDisk } from '../../../src/kit/env/real-disk.ts';
import { createLogger } from '../../../src/kit/logger.ts';
import { type Host, realHost } from '../../../src/kit/process/host.ts';
import { lifeOf, type NamespacedIdentity } from '../../../src/kit/process/identity.ts';
import { makeSpool, type Spool, type SpoolEnv, spoolAt } from '../../../src/spool/spool.ts';
import { type Entry, Ledger } from './ledger.ts';
import {
  listingOf,
  type Machine,
  type MachineProcess,
  ROOT,
  SETTINGS,
  type Tree,
  type TreeNode,
  type Work,
} from './machine.ts';

/** Larger than any pid of a process. */
const FIRST_PID = 5_000_000;

/** A disk that tells of each rename when it has happened. */
class NotedDisk extends RealDisk {
  readonly #onRename: (to: string) => void;

  constructor(onRename: (to: string) => void) {
    super();
    this.#onRename = onRename;
  }

  override async rename(from: string, to: string): Promise<void> {
    await super.rename(from, to);
    this.#onRename(to);
  }
}

class DiskTree implements Tree {
  readonly #root: string;

  constructor(root: string) {
    this.#root = root;
  }

  *walk(): Generator<{ path: string; node: TreeNode }> {
    const entries = fs.readdirSync(this.#root, { recursive: true, withFileTypes: true });
    for (const entry of entries) {
      const path = join(entry.parentPath, entry.name);
      yield { path: join(ROOT, relative(this.#root, path)), node: nodeAt(path) as TreeNode };
    }
  }

  find(path: string): TreeNode | undefined {
    return nodeAt(join(this.#root, relative(ROOT, path)));
  }
}

function nodeAt(path: string): TreeNode | undefined {
  const stat = fs.lstatSync(path, { throwIfNoEntry: false });
  if (!stat) return undefined;
  return stat.isDirectory() ? { isFolder: true } : { isFolder: false, content: fs.readFileSync(path) };
}

export interface DiskWorldPaths {
  /** Where the spool lies. */
  readonly spool: string;
  /** What handlers have done. */
  readonly ledger: string;
}

export class DiskWorld implements Machine {
  readonly tree: Tree;
  readonly ledger: Ledger;
  now = Date.now();
  readonly paths: DiskWorldPaths;
  readonly #restarted: { readonly boot: string; readonly atMs: number } | undefined;
  #pids = FIRST_PID;

  /** With `isRestarted`, the machine was switched off and on after everything that is on the disk. */
  constructor(paths: DiskWorldPaths, { isRestarted = false } = {}) {
    this.paths = paths;
    this.tree = new DiskTree(paths.spool);
    this.#restarted = isRestarted ? { boot: 'after the power cut', atMs: Date.now() + 1 } : undefined;
    this.ledger = new Ledger(readEntries(paths.ledger), (entry) =>
      fs.appendFileSync(paths.ledger, `${JSON.stringify(entry)}\n`),
    );
  }

  static async make(paths: DiskWorldPaths, prepare: readonly Work[]): Promise<DiskWorld> {
    const world = new DiskWorld(paths);
    await world.process().run(({ spool }) => makeSpool(spool));
    for (const work of prepare) await world.process().run(work);
    return world;
  }

  listing(): string {
    return listingOf(this.tree);
  }

  process(): MachineProcess {
    const pid = this.#pids++;
    const disk = new NotedDisk((to) => this.ledger.onRename(to, pid));
    const { self } = realHost(() => Date.now());
    const boot = this.#restarted?.boot ?? self.boot;
    return this.#processWith({ ...realEnv(), disk }, { ...self, pid, boot });
  }

  /** The process that runs this code, under its own pid, on a disk that it is given. */
  ownProcess(env: Env): MachineProcess {
    return this.#processWith(env, realHost(() => Date.now()).self);
  }

  #processWith(env: SpoolEnv, self: NamespacedIdentity): MachineProcess {
    const process: MachineProcess = {
      world: this,
      identity: self,
      spool: this.#spoolOf(env, self),
      run: async (work) => void (await work(process)),
      kill: () => undefined,
    };
    return process;
  }

  #spoolOf(env: SpoolEnv, self: NamespacedIdentity): Spool {
    const logger = createLogger({ write: () => undefined, now: () => Date.now() });
    return spoolAt({ env, host: this.#hostOf(self), logger, folder: this.paths.spool, settings: SETTINGS });
  }

  #hostOf(self: NamespacedIdentity): Host {
    const real = realHost(() => Date.now());
    const restarted = this.#restarted;
    if (!restarted) return { ...real, self };
    return {
      hostname: real.hostname,
      self,
      bootedAtMs: () => restarted.atMs,
      lifeOf: (other) =>
        other.boot === restarted.boot ? lifeOf({ ...other, boot: real.self.boot }) : 'other boot',
    };
  }
}

const readEntries = (path: string): Entry[] =>
  fs.existsSync(path)
    ? fs
        .readFileSync(path, 'utf8')
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => JSON.parse(line) as Entry)
    : [];
