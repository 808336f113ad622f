/**
 * The files in a command backend's folder and their records. The brain and the keepers share nothing else but the pipe
 * of keeper-wire.ts.
 *
 * L1  A token's folder is created complete, by a rename: with an `owner.json`, or with a `tombstone`. Both make it
 *     non-empty, and a rename onto a folder that is not empty fails, so each token's folder is created once.
 * L2  `owner.json` and the names of it and its folder are on stable storage before the command is started.
 * L3  `exit.json` is written after all of `stdout` is on stable storage, and says how long `stdout` is: a process that
 *     escaped may append to it later, and nobody reads that.
 * L4  The keeper of an execution is the one of the highest `keeper-N`, or of `owner.json` where there is none.
 *     `keeper-N` is created by a rename like the token's folder, by a keeper that has found keeper N - 1 dead. Only the
 *     keeper of an execution writes `exit.json`.
 * L5  Whoever creates `status` decides whether the command is run: its wrapper does so right before it runs it, and a
 *     keeper that finds no wrapper does so to make sure that none comes later.
 */
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { isProcessIdentity, type ProcessIdentity } from '../../../kit/process/identity.ts';
import type { Mark } from '../../../kit/process/marked.ts';
import type { JsonOutput } from './json-output.ts';

/** A longer output is cut to this size in the result; the events contain all of it. */
export const MAX_RESULT_BYTES = 1024 * 1024;

/** Where a command's output is cut into events. */
export type Split = 'line' | 'space';

/**
 * `owner.json`: the process of the keeper, the content of the `started` event, and what a later keeper needs to know.
 * Before there were keepers, the process was a supervisor with this one command.
 */
export interface OwnerRecord extends ProcessIdentity {
  /** Missing in the records of supervisors. */
  readonly kept?: true;
  readonly token: string;
  readonly hash?: string | undefined;
  readonly job_id: string;
  readonly model: string | undefined;
  readonly split: Split;
  readonly started_at: number;
  readonly timeout_ms?: number | undefined;
  /** The keeper stops the command at `timeout_ms`; otherwise only if no brain has done so by then. */
  readonly own_timeout?: true | undefined;
  readonly max_output_bytes?: number;
  /** Here and not taken from the configuration, which may be another one when the command ends. */
  readonly output?: JsonOutput | undefined;
}

/**
 * Why an execution ended. `exit`: by itself. `killed`: by order of a brain. `terminated`: its keeper got a SIGTERM that
 * no brain ordered. `timeout`: the keeper's backstop behind the job's timeout. `output`: too much output. `disk`: the
 * output could not be written. `start`: the command could not be started. `lost`: nobody saw its end.
 */
export type ExitWhy = (typeof EXIT_WHYS)[number];

const EXIT_WHYS = ['exit', 'killed', 'terminated', 'timeout', 'output', 'disk', 'start', 'lost'] as const;

/** `exit.json` */
export interface ExitRecord {
  readonly code: number | null;
  readonly signal: string | null;
  readonly why: ExitWhy;
  /** What went wrong, where the keeper ended the command or could not start it. */
  readonly message?: string;
  /** The error code of a failed start. */
  readonly errno?: string;
  readonly stderr_tail: string;
  readonly ended_at: number;
  /** The length of the output; a record without it was written when nothing was appended later. */
  readonly output_bytes?: number;
  /** The whole output is the text of a JSON object or array. */
  readonly is_json?: true;
}

/** `tombstone`, `kill`, `acked` and `unasked` */
export interface TimestampRecord {
  readonly at: number;
  /** The lived time of the folder (kit/lived-time.ts) at that instant, by which what is kept expires. */
  readonly lived?: number;
}

export const isOwnerRecord = (value: unknown): value is OwnerRecord =>
  isProcessIdentity(value) && typeof (value as Partial<OwnerRecord>).token === 'string';

/** The command can reach the file: nothing in it is taken for granted. */
export function isExitRecord(value: unknown): value is ExitRecord {
  const { why, ended_at, stderr_tail, output_bytes = 0 } = (value ?? {}) as Partial<ExitRecord>;
  const isKnown = EXIT_WHYS.some((each) => each === why);
  const isLength = Number.isSafeInteger(output_bytes) && output_bytes >= 0;
  return isKnown && isLength && typeof ended_at === 'number' && typeof stderr_tail === 'string';
}

export const isTimestampRecord = (value: unknown): value is TimestampRecord =>
  typeof (value as Partial<TimestampRecord> | null)?.at === 'number';

export interface TokenPaths {
  readonly name: string;
  readonly folder: string;
  readonly owner: string;
  /** The process of the command of a supervisor; keepers do not write it. */
  readonly child: string;
  /** What the wrapper says: its pid, which is that of the command's process group, and the exit code of the command. */
  readonly status: string;
  readonly exit: string;
  readonly stdout: string;
  readonly stderr: string;
  readonly work: string;
  readonly tombstone: string;
  /** Written by the brain before it signals the keeper: the keeper looks for it, and can tell a signal from elsewhere apart. */
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

export function pathsIn({ executions }: Pick<Layout, 'executions'>, name: string): TokenPaths {
  const folder = join(executions, name);
  return { name, folder, ...filesIn(folder) };
}

export const filesIn = (folder: string): Omit<TokenPaths, 'name' | 'folder'> => ({
  owner: join(folder, 'owner.json'),
  child: join(folder, 'child.json'),
  status: join(folder, 'status'),
  exit: join(folder, 'exit.json'),
  stdout: join(folder, 'stdout'),
  stderr: join(folder, 'stderr'),
  work: join(folder, 'work'),
  tombstone: join(folder, 'tombstone'),
  kill: join(folder, 'kill'),
  acked: join(folder, 'acked'),
  unasked: join(folder, 'unasked'),
});

/** The folder by which a later keeper has taken over an execution (L4). */
export const heirFolder = ({ folder }: Pick<TokenPaths, 'folder'>, n: number): string =>
  join(folder, `keeper-${n}`);

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
export const MARK_VARIABLE = 'JOB_EXECUTION';

export const markOf = (registry: string, name: string): Mark => ({
  variable: MARK_VARIABLE,
  value: `${registry}/${name}`,
});
