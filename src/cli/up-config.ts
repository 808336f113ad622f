/** The configuration of `orchd up`: that of the file and the environment, with what the command line adds. */
import { stat } from 'node:fs/promises';
import type { ConfigFile } from '../app/parts.ts';
import type { LoadedConfig } from '../config/load.ts';
import type { UpstreamConfig } from '../config/upstreams.ts';
import { OrchdError } from '../model/errors.ts';
import { textOf, wholeOf } from './arguments.ts';
import { type CliArguments, type Terminal, UsageError } from './command.ts';
import { configPath, dataFolder, readLoadedConfig } from './settings.ts';

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
    withUpstreams(await readAgain(args, path).catch((error) => refuse(error, path)), upstreams);
  return {
    loaded,
    configuredUpstreams: configured.config.backends.upstreams.length,
    file: path === undefined ? undefined : { loaded, read, check: (next) => checkStart(args, loaded, next) },
  };
}

/**
 * Only a file can be read again: a pipe, as of `--config <(…)`, has nothing more, and waiting for it would stop every later
 * reload. One without a text is being written, or was lost; an empty configuration is `{}`.
 */
async function readAgain(args: CliArguments, path = ''): Promise<LoadedConfig> {
  const found = await stat(path).catch(() => undefined);
  if (found && !found.isFile()) throw new UsageError(`"${path}" is no file, and cannot be read again.`);
  if (found?.size === 0) throw new UsageError(`"${path}" is empty: write {} to use the defaults.`);
  return readLoadedConfig(args);
}

/** Throws CONFIG_INVALID with everything that a start of `next` would refuse, in the data folder of `first`. */
async function checkStart(args: CliArguments, first: LoadedConfig, next: LoadedConfig): Promise<void> {
  const { failOnIssues } = await import('../config/issues.ts');
  const { startFindings } = await import('./start-checks.ts');
  const { config, origins } = next;
  const host = textOf(args.values, 'host') ?? config.server.host;
  const port = wholeOf(args.values, 'port', 0, 65_535) ?? config.server.port;
  const findings = await startFindings({ config, data: dataFolder(args, first.config), host, port });
  const faults = findings.filter(({ is }) => is === 'fault');
  failOnIssues(
    faults.map(({ path: field, message }) => ({
      // A list has one place, whichever of its entries is meant.
      position: origins.get(field.replace(/\[.*$/, '')) ?? '',
      field,
      message,
    })),
  );
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
