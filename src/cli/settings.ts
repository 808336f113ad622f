/** Configuration and data folder of the commands that work beside the data: the server itself, and tokens. */
import type { ResolvedConfig } from '../config/resolve.ts';
import type { Given } from './command.ts';
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

export const dataFolder = ({ values }: Given, config: ResolvedConfig): string =>
  textOf(values, 'data') ?? variable('ORCHD_DATA') ?? config.state.checkpointDir;
