/** What the scenarios and judges of a spool need of a machine: the simulated one of world.ts, or that of disk-world.ts. */
import { spoolPaths } from '../../../src/spool/layout.ts';
import type { Spool, SpoolSettings } from '../../../src/spool/spool.ts';
import type { Ledger } from './ledger.ts';

/** Where the spool of every machine lies, as its tree names it. */
export const ROOT = '/spool';
export const PATHS = spoolPaths(ROOT);
export const TTL_MS = 60_000;

export const SETTINGS: SpoolSettings = {
  foreignLockTtlMs: TTL_MS,
  settleMs: 500,
  maxPromptBytes: 1 << 20,
  maxRetries: 2,
};

export type TreeNode = { readonly isFolder: true } | { readonly isFolder: false; readonly content: Buffer };

/** The files and folders of a machine. */
export interface Tree {
  walk(): Iterable<{ readonly path: string; readonly node: TreeNode }>;
  find(path: string): TreeNode | undefined;
}

export interface Machine {
  readonly tree: Tree;
  readonly ledger: Ledger;
  /** The time by which heartbeats are judged. */
  now: number;
  process(): MachineProcess;
  /** All paths, for messages. */
  listing(): string;
}

export interface MachineProcess {
  readonly world: Machine;
  readonly spool: Spool;
  readonly identity: { readonly pid: number };
  run(work: Work): Promise<void>;
  /** SIGKILL. */
  kill(): void;
}

export type Work = (process: MachineProcess) => Promise<unknown>;

export const listingOf = (tree: Tree): string =>
  [...tree.walk()]
    .map(({ path, node }) => (node.isFolder ? `${path}/` : `${path}: ${node.content}`))
    .join('\n');
