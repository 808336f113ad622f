/** The options of a command backend, and their check. */
import { argumentFaults } from '../../../config/command-arguments.ts';
import type { ExecutionOutcome, Offer } from '../../../core/ports/backend.ts';
import { OrchdError } from '../../../model/errors.ts';
import type { Labels } from '../../../model/records.ts';
import type { JsonOutput } from './json-output.ts';
import type { ExitWhy, Split } from './layout.ts';

export interface CommandType {
  /** The program and its arguments, passed without a shell. */
  readonly argv: readonly string[];
  /** In place of `argv` for a job that goes on with a thread. Both may contain placeholders (arguments.ts). */
  readonly resumeArgv?: readonly string[] | undefined;
  /** The working directory. By default an empty folder of its own, removed with the execution. */
  readonly cwd?: string;
  /** Environment variables, added to PATH, HOME, LANG and TMPDIR, the only ones passed on from our environment. */
  readonly env?: Readonly<Record<string, string>>;
  /** Where the output is cut into events; `line` by default. */
  readonly split?: Split;
  /** Where the parts of the answer are in what the command prints; without it, all that it prints is the text. */
  readonly output?: JsonOutput | undefined;
}

/** A command that is made for one offer. */
export interface OfferedCommand extends CommandType {
  /** Its standard input, in place of the payload of the job. */
  readonly input?: string;
  /** It is stopped after this time, by its keeper; by default at the timeout of the job, by the brain. */
  readonly timeoutMs?: number;
}

/** Makes the command for an offer. Throws an OrchdError for an offer that is refused. `work`: its own empty folder. */
export type CommandOf = (offer: Offer, work: string) => OfferedCommand;

/** Changes the outcome that follows from how a command ended. */
export type CommandOutcome = (outcome: ExecutionOutcome, why: ExitWhy) => ExecutionOutcome;

export interface CommandBackendOptions {
  /** The cluster node on whose machine the commands run. */
  readonly node?: string | undefined;
  readonly name: string;
  /** The backend's own data folder; it survives restarts. */
  readonly folder: string;
  /** Maximum number of concurrent commands; 1 by default. */
  readonly slots?: number;
  readonly types: Readonly<Record<string, CommandType | CommandOf>>;
  readonly outcomeOf?: CommandOutcome;
  readonly labels?: Labels;
  readonly models?: readonly string[];
  /** Whether a second execution would cost money. */
  readonly paid?: boolean;
  /** The folder is a copy, or the store of the brain is: what was run for another brain is set aside. */
  readonly isCopy?: boolean;
  /** How long the events of an acknowledged execution stay readable; 10 minutes by default. */
  readonly keepAckedMs?: number;
  /** A command that writes more is stopped; 16 MiB by default. */
  readonly maxOutputBytes?: number;
}

/** The values of options that are left out. */
export const COMMAND_DEFAULTS = {
  slots: 1,
  paid: false,
  labels: {},
  split: 'line',
  env: {},
  keepAckedMs: 10 * 60_000,
  maxOutputBytes: 16 * 1024 * 1024,
} as const;

/** A shell drops variables with other names from the environment of what it runs (wrapper.ts). */
const VARIABLE_NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;
/** Variables that a shell changes, or does not start with. */
const SHELL_VARIABLES = ['IFS', 'OPTIND', 'PPID', 'PWD'];

export function checkOptions({
  name,
  folder,
  slots = COMMAND_DEFAULTS.slots,
  types,
}: CommandBackendOptions): void {
  const wrong = (what: string): never => {
    throw new OrchdError('CONFIG_INVALID', `backend "${name}": ${what}`);
  };
  if (folder === '') wrong('it needs a folder');
  if (!Number.isSafeInteger(slots) || slots < 1) wrong('slots must be a whole number of at least 1');
  for (const [type, made] of Object.entries(types)) {
    if (typeof made === 'function') continue;
    const { argv, resumeArgv, env = {}, split } = made;
    const isText = (part: unknown): boolean => typeof part === 'string' && !part.includes('\0');
    if (!Array.isArray(argv) || argv.length === 0 || argv[0] === '' || !argv.every(isText))
      wrong(`types.${type}.argv must be a list of texts that begins with a program`);
    if (resumeArgv && (resumeArgv.length === 0 || !resumeArgv.every(isText)))
      wrong(`types.${type}.resume_argv must be a list of texts that begins with a program`);
    for (const { key, message } of argumentFaults(argv, resumeArgv))
      wrong(`types.${type}.${key}: ${message}`);
    const name = Object.keys(env).find((key) => !VARIABLE_NAME.test(key));
    if (name !== undefined) wrong(`types.${type}.env: "${name}" is not a name of letters, digits and _`);
    const taken = SHELL_VARIABLES.find((key) => Object.hasOwn(env, key));
    if (taken !== undefined) wrong(`types.${type}.env: ${taken} is set by the shell that runs the command`);
    if (split !== undefined && split !== 'line' && split !== 'space')
      wrong(`types.${type}.split must be line or space`);
  }
}
