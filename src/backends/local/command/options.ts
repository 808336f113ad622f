/** What a command backend is told. */
import { OrchdError } from '../../../model/errors.ts';
import type { Labels } from '../../../model/records.ts';
import type { Split } from './layout.ts';

export interface CommandType {
  /** The program and its arguments as they are; no shell reads them. */
  readonly argv: readonly string[];
  /** Where it runs; without one, in an empty folder of its own that goes with the execution. */
  readonly cwd?: string;
  /** Added to PATH, HOME, LANG and TMPDIR, which are all it gets of ours. */
  readonly env?: Readonly<Record<string, string>>;
  /** Where its output is cut into events; `line` where nothing is said. */
  readonly split?: Split;
}

export interface CommandBackendOptions {
  /** The node of a cluster whose machine it runs on. */
  readonly node?: string | undefined;
  readonly name: string;
  /** Kept between starts, for this backend alone. */
  readonly folder: string;
  /** How many run at once; 1 where nothing is said. */
  readonly slots?: number;
  readonly types: Readonly<Record<string, CommandType>>;
  readonly labels?: Labels;
  readonly models?: readonly string[];
  /** Whether a second execution would cost money. */
  readonly paid?: boolean;
  /** How long the events of an acknowledged execution can be read again. */
  readonly keepAckedMs?: number;
  /** A command that writes more is stopped. */
  readonly maxOutputBytes?: number;
}

export function checkOptions({ name, folder, slots = 1, types }: CommandBackendOptions): void {
  const wrong = (what: string): never => {
    throw new OrchdError('CONFIG_INVALID', `backend "${name}": ${what}`);
  };
  if (folder === '') wrong('it needs a folder');
  if (!Number.isSafeInteger(slots) || slots < 1) wrong('slots must be a whole number of at least 1');
  for (const [type, { argv, split }] of Object.entries(types)) {
    const isText = (part: unknown): boolean => typeof part === 'string' && !part.includes('\0');
    if (!Array.isArray(argv) || argv.length === 0 || argv[0] === '' || !argv.every(isText))
      wrong(`types.${type}.argv must be a list of texts that begins with a program`);
    if (split !== undefined && split !== 'line' && split !== 'space')
      wrong(`types.${type}.split must be line or space`);
  }
}
