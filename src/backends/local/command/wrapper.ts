/**
 * The wrapper: a POSIX shell that runs one command and writes its exit code to a file, so that the code is known also
 * when the keeper dies before the command does. It forks nothing else, and interprets nothing: the command's words are
 * its arguments, and the program is a path with a slash in it, which is never a builtin of a shell.
 */
import fs from 'node:fs';
import { basename, delimiter, isAbsolute, join } from 'node:path';
import { openRegular } from '../../../kit/env/regular-file.ts';
import type { CommandSpec } from './keeper-wire.ts';
import type { TokenPaths } from './layout.ts';
import { isTransientStart } from './start-errors.ts';

export const SHELL = '/bin/sh';

/** Variables that shells add to the environment of what they run. */
const ADDED_BY_SHELLS = ['PWD', 'OLDPWD', 'SHLVL'];

/**
 * `$1` is the path of `status`, which is created only where it does not exist (`set -C`; L5 of layout.ts): otherwise the
 * shell ends. `$2` is the umask of the command. A trapped signal does not end the wrapper, and has its usual effect on the command: so a signal to the
 * whole group leaves somebody to report how the command ended. The line with the exit code is one write, and ends with
 * a word by which a reader knows that it is whole.
 */
const scriptOf = (unset: readonly string[]): string =>
  [
    'trap : HUP INT QUIT TERM USR1 USR2 ALRM PIPE',
    'umask 077',
    'set -C',
    'exec 4>"$1"',
    'set +C',
    'umask "$2"',
    'shift 2',
    'echo "pid $$" >&4',
    ...(unset.length > 0 ? [`unset ${unset.join(' ')}`] : []),
    '"$@" 4>&-',
    'code=$?',
    'echo "exit $code end" >&4',
    'exit $code',
  ].join('\n');

const USUAL_SCRIPT = scriptOf(ADDED_BY_SHELLS);

const UMASK = `0${process.umask().toString(8)}`;

/**
 * The words of the wrapper. A shell begins its own messages with `voice`, which the command does not know: so a message
 * that the command could not be run is told apart from one of the command.
 */
export function wrapperWords(
  { argv, env }: CommandSpec,
  program: string,
  { status }: TokenPaths,
  voice: string,
): string[] {
  const unset = ADDED_BY_SHELLS.filter((name) => !Object.hasOwn(env, name));
  const script = unset.length === ADDED_BY_SHELLS.length ? USUAL_SCRIPT : scriptOf(unset);
  return ['-c', script, voice, status, UMASK, program, ...argv.slice(1)];
}

const PID_LINE = /^pid (\d+)\n/;
const EXIT_LINE = /^exit (\d{1,3}) end\n/m;
const MAX_STATUS_BYTES = 256;

/** What the wrapper has written to `status`: its pid, and the exit code of the command; each only where it is whole. */
export function readStatus(path: string): {
  readonly pid: number | undefined;
  readonly code: number | undefined;
} {
  const text = headOf(path, MAX_STATUS_BYTES);
  const [pid, code] = [PID_LINE.exec(text)?.[1], EXIT_LINE.exec(text)?.[1]];
  return {
    pid: pid === undefined ? undefined : Number(pid),
    code: code === undefined ? undefined : Number(code),
  };
}

/** The first bytes of a file as text; empty where there is none. */
export function headOf(path: string, maxBytes: number): string {
  try {
    const fd = openRegular(path);
    try {
      const bytes = Buffer.alloc(maxBytes);
      return bytes.toString('utf8', 0, fs.readSync(fd, bytes, 0, maxBytes, 0));
    } finally {
      fs.closeSync(fd);
    }
  } catch {
    return '';
  }
}

/** Exit codes of a shell that could not run the program. */
const NOT_RUN = [126, 127];

/** What a shell says about a start that has failed, by the error it stands for. */
const SAID: readonly (readonly [RegExp, string])[] = [
  [/cannot fork|fork:|resource temporarily unavailable/i, 'EAGAIN'],
  [/cannot allocate memory/i, 'ENOMEM'],
  [/text file busy/i, 'ETXTBSY'],
  [/argument list too long/i, 'E2BIG'],
  [/no space left/i, 'ENOSPC'],
  [/quota exceeded/i, 'EDQUOT'],
  [/read-only file system/i, 'EROFS'],
  [/too many open files/i, 'EMFILE'],
  [/exec format error/i, 'ENOEXEC'],
  [/permission denied/i, 'EACCES'],
  [/not found|no such file/i, 'ENOENT'],
];
const MAX_SAID_BYTES = 1000;

/** The error of a start that the shell reports; undefined where the command was run. `code`: its exit code, where there is one. */
export function startErrorOf(
  { stderr }: TokenPaths,
  voice: string,
  code: number | undefined,
): string | undefined {
  if (code !== undefined && !NOT_RUN.includes(code)) return undefined;
  const said = headOf(stderr, MAX_SAID_BYTES);
  if (!said.startsWith(`${voice}:`)) return undefined;
  // Without an exit code it could not even write that it begins.
  return SAID.find(([words]) => words.test(said))?.[1] ?? (code === undefined ? 'EIO' : 'ENOEXEC');
}

const DEFAULT_PATH = '/bin:/usr/bin';

/** Looks for the program as execvp does; returns its path, or throws the error that execvp would fail with. */
export function findProgram({ argv, env, cwd }: CommandSpec, work: string): string {
  const name = argv[0] as string;
  const folder = cwd ?? work;
  const from = (path: string): string => (isAbsolute(path) ? path : join(folder, path));
  if (!isFolder(folder)) throw errno('ENOENT');
  const places = name.includes('/')
    ? [from(name)]
    : (env['PATH'] ?? DEFAULT_PATH).split(delimiter).map((place) => join(from(place), name));
  let found: string | undefined;
  for (const path of places) {
    const problem = problemWith(path);
    if (problem === undefined) return path;
    if (found === undefined || found === 'ENOENT') found = problem;
  }
  throw errno(found ?? 'ENOENT');
}

function problemWith(path: string): string | undefined {
  try {
    const stats = fs.statSync(path, { throwIfNoEntry: false });
    if (!stats) return 'ENOENT';
    if (!stats.isFile()) return 'EACCES';
    fs.accessSync(path, fs.constants.X_OK);
    return undefined;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? 'EACCES';
  }
}

const isFolder = (path: string): boolean =>
  fs.statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;

const errno = (code: string): NodeJS.ErrnoException => Object.assign(new Error(code), { code });

/** Says why a command does not start. The caller of the job sees it, so it contains no paths of this machine. */
export function startMessage({ argv, cwd }: CommandSpec, code: string | undefined): string {
  if (cwd !== undefined && !isFolder(cwd))
    return 'there is no folder for it to run in: see cwd in the configuration (of a tool: folder)';
  const reason = code ?? 'no reason given';
  return `the program "${basename(argv[0] ?? '')}" does not start (${reason})${adviceOn(code)}`;
}

/** Where the machine lacks something, the configuration is not to blame. */
function adviceOn(code: string | undefined): string {
  if (isTransientStart(code)) return ': its machine lacks space, memory or processes at the moment';
  return ': see argv in the configuration';
}
