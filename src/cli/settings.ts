/** The configuration and the data folder of the commands that use them: `up`, `migrate` and `token`. */
import { stat } from 'node:fs/promises';
import type { CheckedConfig, ConfigSource, LoadedConfig } from '../config/load.ts';
import type { ResolvedConfig } from '../config/resolve.ts';
import { DEFAULT_DATA_FOLDER, hasConfigVariable } from '../config/variables.ts';
import { textOf, variable } from './arguments.ts';
import { type CliArguments, type Terminal, UsageError } from './command.ts';
import { fileText } from './json-argument.ts';

/** Throws CONFIG_INVALID with the position of every error in the configuration; warnings go to the terminal, if given. */
export async function readConfig(args: CliArguments, terminal?: Terminal): Promise<ResolvedConfig> {
  // Loaded only here: schemas take longer to load than most commands to run.
  const { loadConfig } = await import('../config/load.ts');
  const onWarning = (sentence: string): void => terminal?.complain(`orchd: ${sentence}`);
  return loadConfig({ ...(await sourceOf(args)), onWarning });
}

/** As readConfig, with where the values were set. */
export async function readLoadedConfig(args: CliArguments, terminal?: Terminal): Promise<LoadedConfig> {
  const { loadedFrom } = await import('../config/load.ts');
  const { checked, warnings } = await readCheckedConfig(args);
  for (const sentence of warnings) terminal?.complain(`orchd: ${sentence}`);
  return loadedFrom(checked);
}

/** The file of the configuration, if the command line or the environment names one. */
export const configPath = ({ values }: CliArguments): string | undefined =>
  textOf(values, 'config') ?? variable('ORCHD_CONFIG');

export interface ReadConfig {
  /** What the configuration is called in messages: its file, or where there is none what it consists of. */
  readonly label: string;
  readonly checked: CheckedConfig;
  readonly warnings: readonly string[];
}

/** The configuration with its faults, instead of an error. */
export async function readCheckedConfig(args: CliArguments): Promise<ReadConfig> {
  const { checkConfig } = await import('../config/load.ts');
  const source = await sourceOf(args);
  const warnings: string[] = [];
  const checked = checkConfig({ ...source, onWarning: (sentence) => void warnings.push(sentence) });
  return { label: source.label ?? 'defaults and variables', checked, warnings };
}

/** The file that the command line or the environment names, if one does, and the variables. */
async function sourceOf(args: CliArguments): Promise<ConfigSource> {
  const path = configPath(args);
  const { env } = process;
  return path === undefined ? { env } : { text: await fileText(path), label: path, env };
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
  if (configPath(args) === undefined && !hasConfigVariable(process.env))
    return namedFolder(args) ?? DEFAULT_DATA_FOLDER;
  return dataFolder(args, await readConfig(args));
}

/** The data folder that the command line or ORCHD_DATA names. */
export const namedFolder = ({ values }: CliArguments): string | undefined =>
  textOf(values, 'data') ?? variable('ORCHD_DATA');
