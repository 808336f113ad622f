/** Configuration and data folder of the commands that work beside the data: the server itself, and tokens. */
import { stat } from 'node:fs/promises';
import type { ResolvedConfig } from '../config/resolve.ts';
import { DEFAULT_DATA_FOLDER, hasConfigVariable } from '../config/variables.ts';
import { type Given, UsageError } from './command.ts';
import { textOf, variable } from './given.ts';
import { fileText } from './json-argument.ts';

/** Throws CONFIG_INVALID with the place of every fault. */
export async function readConfig({ values }: Given): Promise<ResolvedConfig> {
  // Loaded only here: schemas take longer to load than most commands to run.
  const { loadConfig } = await import('../config/load.ts');
  const path = textOf(values, 'config') ?? variable('ORCHD_CONFIG');
  if (path === undefined) return loadConfig({ env: process.env });
  return loadConfig({ text: await fileText(path), label: path, env: process.env });
}

/** The folder at that path, if there is one: what is there and is none is told before anything is tried in it. */
export async function folderAt(path: string): Promise<string> {
  const found = await stat(path).catch((error: NodeJS.ErrnoException) => error.code);
  if (found === 'ENOTDIR') throw new UsageError(`"${path}" cannot be a folder: what is above it is a file.`);
  if (typeof found === 'object' && !found.isDirectory()) throw new UsageError(`"${path}" is not a folder.`);
  return path;
}

export const dataFolder = (given: Given, config: ResolvedConfig): string =>
  namedFolder(given) ?? config.state.checkpointDir;

/** The data folder of a command that needs nothing else of the configuration: without one, that is not loaded. */
export async function dataFolderAlone(given: Given): Promise<string> {
  const path = textOf(given.values, 'config') ?? variable('ORCHD_CONFIG');
  if (path === undefined && !hasConfigVariable(process.env)) return namedFolder(given) ?? DEFAULT_DATA_FOLDER;
  return dataFolder(given, await readConfig(given));
}

const namedFolder = ({ values }: Given): string | undefined =>
  textOf(values, 'data') ?? variable('ORCHD_DATA');
