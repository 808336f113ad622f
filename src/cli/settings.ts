/** The configuration and the data folder of the commands that use them: `up`, `migrate` and `token`. */
import { stat } from 'node:fs/promises';
import type { ResolvedConfig } from '../config/resolve.ts';
import { DEFAULT_DATA_FOLDER, hasConfigVariable } from '../config/variables.ts';
import { textOf, variable } from './arguments.ts';
import { type CliArguments, type Terminal, UsageError } from './command.ts';
import { fileText } from './json-argument.ts';

/** Throws CONFIG_INVALID with the position of every error in the configuration; warnings go to the terminal, if given. */
export async function readConfig({ values }: CliArguments, terminal?: Terminal): Promise<ResolvedConfig> {
  // Loaded only here: schemas take longer to load than most commands to run.
  const { loadConfig } = await import('../config/load.ts');
  const path = textOf(values, 'config') ?? variable('ORCHD_CONFIG');
  const { env } = process;
  const onWarning = (sentence: string): void => terminal?.complain(`orchd: ${sentence}`);
  if (path === undefined) return loadConfig({ env, onWarning });
  return loadConfig({ text: await fileText(path), label: path, env, onWarning });
}

/** Returns `path`; throws UsageError if something other than a folder is there. A folder that does not exist is accepted. */
export async function folderAt(path: string): Promise<string> {
  const found = await stat(path).catch((error: NodeJS.ErrnoException) => error.code);
  if (found === 'ENOTDIR')
    throw new UsageError(`"${path}" cannot be a folder: a part of the path is a file.`);
  if (typeof found === 'object' && !found.isDirectory()) throw new UsageError(`"${path}" is not a folder.`);
  return path;
}

export const dataFolder = (args: CliArguments, config: ResolvedConfig): string =>
  namedFolder(args) ?? config.state.checkpointDir;

/** The data folder of a command that needs no other setting: the configuration is loaded only if there is one. */
export async function dataFolderAlone(args: CliArguments): Promise<string> {
  const path = textOf(args.values, 'config') ?? variable('ORCHD_CONFIG');
  if (path === undefined && !hasConfigVariable(process.env)) return namedFolder(args) ?? DEFAULT_DATA_FOLDER;
  return dataFolder(args, await readConfig(args));
}

const namedFolder = ({ values }: CliArguments): string | undefined =>
  textOf(values, 'data') ?? variable('ORCHD_DATA');
