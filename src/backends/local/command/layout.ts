/**
 * What is where in a command backend's folder, and what is written there. The brain and the supervisors share
 * nothing else.
 *
 * L1  A token's folder comes into being whole, by a rename: with an `owner.json`, or with a `tombstone`. Both
 *     make it non-empty, and a rename onto a folder that is not empty fails, so each token is taken once.
 * L2  `owner.json` is on stable storage before the command is started.
 * L3  `exit.json` appears after everything in `stdout` is on stable storage, and nothing is appended later.
 */
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { isProcessIdentity, type ProcessIdentity } from '../../../kit/process/identity.ts';
import type { Mark } from '../../../kit/process/marked.ts';

/** Where a command's output is cut into events. */
export type Split = 'line' | 'space';

/** What a supervisor is told on its standard input. Secrets in `env` are written nowhere. */
export interface Spec {
  readonly folder: string;
  readonly token: string;
  readonly jobId: string;
  readonly model: string | undefined;
  readonly argv: readonly string[];
  /** Undefined: an empty folder of its own. */
  readonly cwd: string | undefined;
  readonly env: Readonly<Record<string, string>>;
  readonly payload: string;
  readonly split: Split;
  readonly timeoutMs: number | undefined;
  readonly maxOutputBytes: number;
  readonly offeredAt: number;
}

/** What a supervisor says on its standard output, once. */
export type SupervisorReply =
  | { readonly is: 'accepted' }
  | { readonly is: 'taken' }
  | { readonly is: 'failed'; readonly message: string };

/** `owner.json`: whose execution it is, and what its first event says. */
export interface OwnerRecord extends ProcessIdentity {
  readonly token: string;
  readonly job_id: string;
  readonly model: string | undefined;
  readonly split: Split;
  readonly started_at: number;
}

/**
 * How an execution ended: by itself; killed by our order; told to stop by somebody else; at the backstop of its
 * timeout; by too much output; because its output could not be written; because it could not be started; or
 * found dead together with its supervisor.
 */
export type ExitWhy = 'exit' | 'killed' | 'terminated' | 'timeout' | 'output' | 'disk' | 'start' | 'lost';

/** `exit.json` */
export interface ExitRecord {
  readonly code: number | null;
  readonly signal: string | null;
  readonly why: ExitWhy;
  /** What went wrong where the command itself did not say. */
  readonly message?: string;
  /** The error code of a failed start. */
  readonly errno?: string;
  readonly stderr_tail: string;
  readonly ended_at: number;
}

/** `tombstone` and `acked` */
export interface Dated {
  readonly at: number;
}

export const isOwnerRecord = (value: unknown): value is OwnerRecord =>
  isProcessIdentity(value) && typeof (value as Partial<OwnerRecord>).token === 'string';

export function isExitRecord(value: unknown): value is ExitRecord {
  const { why, ended_at } = (value ?? {}) as Partial<ExitRecord>;
  return typeof why === 'string' && typeof ended_at === 'number';
}

export const isDated = (value: unknown): value is Dated =>
  typeof (value as Partial<Dated> | null)?.at === 'number';

export interface TokenPaths {
  readonly name: string;
  readonly folder: string;
  readonly owner: string;
  readonly child: string;
  readonly exit: string;
  readonly stdout: string;
  readonly work: string;
  readonly tombstone: string;
  /** Made by the brain before it sends SIGTERM: tells our order from anybody else's. */
  readonly kill: string;
  readonly acked: string;
}

export interface Layout {
  readonly folder: string;
  readonly registry: string;
  readonly epochs: string;
  readonly executions: string;
  /** Folders that are being made; the same file system, so that a rename puts them in place. */
  readonly staging: string;
  readonly trash: string;
}

export const layoutOf = (folder: string): Layout => ({
  folder,
  registry: join(folder, 'registry.json'),
  epochs: join(folder, 'epochs'),
  executions: join(folder, 'executions'),
  staging: join(folder, 'staging'),
  trash: join(folder, 'trash'),
});

export const pathsOf = (layout: Layout, token: string): TokenPaths => pathsIn(layout, folderName(token));

export function pathsIn({ executions }: Layout, name: string): TokenPaths {
  const folder = join(executions, name);
  return { name, folder, ...filesIn(folder) };
}

export const filesIn = (folder: string): Omit<TokenPaths, 'name' | 'folder'> => ({
  owner: join(folder, 'owner.json'),
  child: join(folder, 'child.json'),
  exit: join(folder, 'exit.json'),
  stdout: join(folder, 'stdout'),
  work: join(folder, 'work'),
  tombstone: join(folder, 'tombstone'),
  kill: join(folder, 'kill'),
  acked: join(folder, 'acked'),
});

/** File names have at most 255 bytes; this leaves room for endings. */
const MAX_NAME = 200;

/**
 * The name of a token's folder: different for every token, also where the file system ignores case, and never
 * a path.
 */
export function folderName(token: string): string {
  const plain = token.isWellFormed() ? `t-${escaped(token)}` : '';
  if (plain !== '' && plain.length <= MAX_NAME) return plain;
  // UTF-16, because half a surrogate pair has no UTF-8 of its own.
  return `h-${createHash('sha256').update(Buffer.from(token, 'utf16le')).digest('hex')}`;
}

export function escaped(text: string): string {
  return text.replace(/[^a-z0-9._~-]/gu, (character) =>
    [...Buffer.from(character)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join(''),
  );
}

/** The variable by which every process of an execution can be found again, whoever its parent is by then. */
const MARK_VARIABLE = 'JOB_EXECUTION';

export const markOf = (registry: string, name: string): Mark => ({
  variable: MARK_VARIABLE,
  value: `${registry}/${name}`,
});
