/** The configuration of `orchd up`: that of the file and the environment, with what the command line adds. */
import type { ConfigFile } from '../app/parts.ts';
import type { LoadedConfig } from '../config/load.ts';
import type { UpstreamConfig } from '../config/upstreams.ts';
import { OrchdError } from '../model/errors.ts';
import { type CliArguments, type Terminal, UsageError } from './command.ts';
import { configPath, readLoadedConfig } from './settings.ts';

export interface UpConfig {
  readonly loaded: LoadedConfig;
  /** The number of upstreams in the configuration, which stand before those of the command line. */
  readonly configuredUpstreams: number;
  /** For reloads; undefined if there is no file. */
  readonly file: ConfigFile | undefined;
}

export async function readUpConfig(
  args: CliArguments,
  upstreams: readonly UpstreamConfig[],
  terminal: Terminal,
): Promise<UpConfig> {
  const configured = await readLoadedConfig(args, terminal);
  const loaded = await withUpstreams(configured, upstreams);
  const path = configPath(args);
  const read = async (): Promise<LoadedConfig> =>
    withUpstreams(await readLoadedConfig(args).catch((error) => refuse(error, path)), upstreams);
  return {
    loaded,
    configuredUpstreams: configured.config.backends.upstreams.length,
    file: path === undefined ? undefined : { loaded, read },
  };
}

async function withUpstreams(loaded: LoadedConfig, more: readonly UpstreamConfig[]): Promise<LoadedConfig> {
  if (more.length === 0) return loaded;
  // Loaded only here: schemas take longer to load than most commands to run.
  const { resolveConfig } = await import('../config/resolve.ts');
  const { raw, origins } = loaded;
  const backends = { ...raw.backends, upstreams: [...raw.backends.upstreams, ...more] };
  const changed = { ...raw, backends };
  return { raw: changed, origins, config: resolveConfig(changed, (path) => origins.has(path)) };
}

/** A file that cannot be read is a wrong command line at the start, and a wrong configuration afterwards. */
function refuse(error: unknown, path = ''): never {
  if (!(error instanceof UsageError)) throw error;
  throw new OrchdError('CONFIG_INVALID', error.message, { position: path });
}
