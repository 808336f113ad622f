/**
 * The files in a command backend's folder and their records. The brain and the supervisors share nothing else.
 *
 * L1  A token's folder is created complete, by a rename: with an `owner.json`, or with a `tombstone`. Both make it
 *     non-empty, and a rename onto a folder that is not empty fails, so each token's folder is created once.
 * L2  `owner.json` is on stable storage before the command is started.
 * L3  `exit.json` is written after all of `stdout` is on stable storage, and nothing is appended to `stdout` later.
 */
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { isProcessIdentity, type ProcessIdentity } from '../../../kit/process/identity.ts';
import type { Mark } from '../../../kit/process/marked.ts';

/** Where a command's output is cut into events. */
export type Split = 'line' | 'space';

/**
 * What a supervisor reads from its standard input: a line with a SpecHeader, then the bytes of the payload. It is never
 * written to a file: `env` may contain secrets.
 */
export interface SupervisorSpec {
  readonly folder: string;
  /** The owner id of the brain's store. */
  readonly brain: string;
  readonly token: string;
  /** The hash of the job's body, where its id was chosen by a caller. */
  readonly hash: string | undefined;
  readonly jobId: string;
  readonly model: string | undefined;
  readonly argv: readonly string[];
  /** The working directory; if undefined, the empty `work` folder of the token. */
  readonly cwd: string | undefined;
  readonly env: Readonly<Record<string, string>>;
  /** Its text; a supervisor has the bytes of that. */
  readonly payload: string | Uint8Array;
  readonly split: Split;
  readonly timeoutMs: number | undefined;
  readonly maxOutputBytes: number;
  readonly offeredAt: number;
}

/** The payload is not in the line: escaping its text once more would hold the brain's event loop. */
export interface SpecHeader extends Omit<SupervisorSpec, 'payload'> {
  readonly payloadBytes: number;
}

/** The one line that a supervisor writes to its standard output. */
export type SupervisorReply =
  | { readonly is: 'accepted' }
  | { readonly is: 'taken' }
  | { readonly is: 'failed'; readonly message: string };

/** `owner.json`: the process of the supervisor, and the content of the `started` event. */
export interface OwnerRecord extends ProcessIdentity {
  readonly token: string;
  readonly hash?: string | undefined;
  readonly job_id: string;
  readonly model: string | undefined;
  readonly split: Split;
  readonly started_at: number;
}

/**
 * Why an execution ended. `exit`: by itself. `killed`: by order of a brain. `terminated`: its supervisor got a SIGTERM
 * that no brain ordered. `timeout`: the supervisor's backstop behind the job's timeout. `output`: too much output.
 * `disk`: the output could not be written. `start`: the command could not be started. `lost`: the supervisor died.
 */
export type ExitWhy = 'exit' | 'killed' | 'terminated' | 'timeout' | 'output' | 'disk' | 'start' | 'lost';

/** `exit.json` */
export interface ExitRecord {
  readonly code: number | null;
  readonly signal: string | null;
  readonly why: ExitWhy;
  /** What went wrong, where the supervisor ended the command or could not start it. */
  readonly message?: string;
  /** The error code of a failed start. */
  readonly errno?: string;
  readonly stderr_tail: string;
  readonly ended_at: number;
}

/** `tombstone`, `kill`, `acked` and `unasked` */
export interface TimestampRecord {
  readonly at: number;
  /** The lived time of the folder (kit/lived-time.ts) at that instant, by which what is kept expires. */
  readonly lived?: number;
}

export const isOwnerRecord = (value: unknown): value is OwnerRecord =>
  isProcessIdentity(value) && typeof (value as Partial<OwnerRecord>).token === 'string';

export function isExitRecord(value: unknown): value is ExitRecord {
  const { why, ended_at } = (value ?? {}) as Partial<ExitRecord>;
  return typeof why === 'string' && typeof ended_at === 'number';
}

export const isTimestampRecord = (value: unknown): value is TimestampRecord =>
  typeof (value as Partial<TimestampRecord> | null)?.at === 'number';

export interface TokenPaths {
  readonly name: string;
  readonly folder: string;
  readonly owner: string;
  readonly child: string;
  readonly exit: string;
  readonly stdout: string;
  readonly work: string;
  readonly tombstone: string;
  /** Written by the brain before it sends SIGTERM to the supervisor, so that a signal from elsewhere can be told apart. */
  readonly kill: string;
  readonly acked: string;
  /** Written when an end without an acknowledgement was first found: it is kept for so long from then on. */
  readonly unasked: string;
}

export interface Layout {
  readonly folder: string;
  /** The time that the folder has been in use. */
  readonly lived: string;
  readonly registry: string;
  readonly epochs: string;
  readonly executions: string;
  /** Token folders that are being filled, on the same file system, so that a rename puts them in place. */
  readonly staging: string;
  readonly trash: string;
}

export const layoutOf = (folder: string): Layout => ({
  folder,
  lived: join(folder, 'lived.json'),
  registry: join(folder, 'registry.json'),
  epochs: join(folder, 'epochs'),
  executions: join(folder, 'executions'),
  staging: join(folder, 'staging'),
  trash: join(folder, 'trash'),
});

export const pathsOf = (layout: Layout, brain: string, token: string): TokenPaths =>
  pathsIn(layout, folderName(brain, token));

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
  unasked: join(folder, 'unasked'),
});

/** File names have at most 255 bytes; this leaves room for suffixes. */
const MAX_NAME = 200;

/**
 * The name of a token's folder: unique for every token of every brain even where the file system ignores case, and
 * never a path. The brain is part of it, because a copy of a store gives its tokens the same names.
 */
export function folderName(brain: string, token: string): string {
  return `${createHash('sha256').update(brain).digest('hex').slice(0, BRAIN_CHARS)}.${oldFolderName(token)}`;
}

const BRAIN_CHARS = 12;

/** The name that earlier versions gave to the folder, without the brain. */
export function oldFolderName(token: string): string {
  const plain = token.isWellFormed() ? `t-${escaped(token)}` : '';
  if (plain !== '' && plain.length <= MAX_NAME) return plain;
  // Hashed as UTF-16, because UTF-8 maps all lone surrogates to the same bytes.
  return `h-${createHash('sha256').update(Buffer.from(token, 'utf16le')).digest('hex')}`;
}

export function escaped(text: string): string {
  return text.replace(/[^a-z0-9._~-]/gu, (character) =>
    [...Buffer.from(character)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join(''),
  );
}

/** The environment variable by which all processes of an execution are found, also when their parent has died. */
const MARK_VARIABLE = 'JOB_EXECUTION';

export const markOf = (registry: string, name: string): Mark => ({
  variable: MARK_VARIABLE,
  value: `${registry}/${name}`,
});
