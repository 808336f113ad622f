/** `orchd pool` */
import { stat } from 'node:fs/promises';
import type { PoolConfig } from '../../daemons/pool-manager/config.ts';
import type { PoolManager } from '../../daemons/pool-manager/pool-manager.ts';
import type { Logger } from '../../kit/logger.ts';
import { flagOf, listOf, noPositionals, numberOf, textOf, variable, wholeOf } from '../arguments.ts';
import { type CliArguments, type Command, EXIT, type Terminal, UsageError } from '../command.ts';
import { daemonLogger, ended } from '../daemon.ts';
import { Interrupt } from '../interrupt.ts';
import { fileText } from '../json-argument.ts';
import { COPY_OPTION, usageOf } from '../options.ts';
import { folderAt } from '../settings.ts';

const options = {
  id: { type: 'string', value: 'NAME', help: 'the name of this pool; by default the name of the machine' },
  port: { type: 'string', value: 'N', help: 'the port; by default 9200; 0 takes a free port' },
  host: {
    type: 'string',
    value: 'HOST',
    help: 'the address to listen on; callers from other machines need the token of the pool',
  },
  advertise: {
    type: 'string',
    value: 'HOST',
    help: 'the name or address by which the brain reaches this machine',
  },
  data: { type: 'string', value: 'DIR', help: 'the folder of the pool; by default data/pool' },
  config: { type: 'string', value: 'FILE', help: 'a configuration file in YAML; options override it' },
  models: {
    type: 'string',
    value: 'DIR',
    multiple: true,
    help: 'a folder with models, for references such as file:/path.gguf',
  },
  'cpu-memory': {
    type: 'string',
    value: 'BYTES|SHARE',
    help: 'memory for models on the CPU; by default half of the memory if there is no GPU',
  },
  'token-file': {
    type: 'string',
    value: 'FILE',
    help: 'the file with the token of the pool; created if it is missing; by default ORCHD_POOL_TOKEN',
  },
  brain: {
    type: 'string',
    value: 'URL[,URL]',
    help: 'the brain that the pool registers with, using the token in ORCHD_TOKEN',
  },
  'brain-token-file': {
    type: 'string',
    value: 'FILE',
    help: 'the file with the token for the brain, instead of ORCHD_TOKEN',
  },
  'hf-endpoint': {
    type: 'string',
    value: 'URL',
    help: 'the server from which models that are not in the cache are downloaded',
  },
  'end-workers': {
    type: 'boolean',
    help: 'stop the workers, too, when the pool manager stops; by default they keep running',
  },
  'this-is-a-copy': COPY_OPTION,
} as const;

export const pool: Command = {
  usage: usageOf({
    call: 'pool [OPTIONS]',
    about: `Runs a pool manager in the foreground. It starts, drains and stops the workers of this machine; the brain decides which.
The log goes to standard output, as JSON lines unless that is a terminal; messages for you go to standard error.
Exit code: 0 stopped by Ctrl-C or SIGTERM, 2 could not start, 130 stopped by a second Ctrl-C.`,
    options,
    examples: [
      'orchd pool --models /srv/models',
      'orchd pool --brain http://127.0.0.1:8080 --id gpu-box',
      'orchd pool --host 0.0.0.0 --advertise gpu-box.local --config pool.yaml',
    ],
  }),
  options,
  async run(args, terminal) {
    noPositionals(args.positionals);
    const { config, tokens } = await settingsOf(args);
    const logger = daemonLogger();
    const interrupt = new Interrupt();
    // Loaded only here: the other commands start faster without it.
    const { startPool } = await import('../../daemons/pool-manager/pool-manager.ts');
    const manager = await startPool({
      config,
      logger,
      ...tokens,
      endWorkers: flagOf(args.values, 'end-workers'),
      isCopy: flagOf(args.values, 'this-is-a-copy'),
    }).catch((error: unknown) => {
      ended(EXIT.unusable);
      throw error;
    });
    terminal.complain(await bannerOf(manager));
    logger.info('the pool manager is up');
    await interrupt.received;
    return ended(await stop(manager, logger, terminal));
  },
};

interface Tokens {
  readonly token: string | undefined;
  readonly brainToken: string | undefined;
}

async function settingsOf({ values }: CliArguments): Promise<{ config: PoolConfig; tokens: Tokens }> {
  const { checkedPoolConfig, parsePoolConfig } = await import('../../daemons/pool-manager/config.ts');
  const path = textOf(values, 'config');
  const file = path === undefined ? {} : parsePoolConfig(await fileText(path), path);
  const models = listOf(values, 'models');
  const flags = {
    pool_id: textOf(values, 'id'),
    port: wholeOf(values, 'port', 0, 65_535),
    host: textOf(values, 'host'),
    advertise: textOf(values, 'advertise'),
    data: textOf(values, 'data'),
    ...(models.length > 0 && { models }),
    cpu_memory: numberOf(values, 'cpu-memory'),
    token_file: textOf(values, 'token-file'),
    brain: textOf(values, 'brain'),
    brain_token_file: textOf(values, 'brain-token-file'),
    hf_endpoint: textOf(values, 'hf-endpoint'),
  };
  const fromOptions = Object.entries(flags).filter(([, value]) => value !== undefined);
  let config: PoolConfig;
  try {
    config = checkedPoolConfig({ ...file, ...Object.fromEntries(fromOptions) });
  } catch (error) {
    throw new UsageError(`${(error as Error).message}.`);
  }
  if (config.data !== undefined) await folderAt(config.data);
  return { config, tokens: await tokensOf(config) };
}

async function tokensOf(config: PoolConfig): Promise<Tokens> {
  const { brain_token_file } = config;
  const brainToken =
    brain_token_file === undefined ? variable('ORCHD_TOKEN') : (await fileText(brain_token_file)).trim();
  if (brainToken === '') throw new UsageError(`"${brain_token_file}" is empty.`);
  return { token: config.token_file === undefined ? variable('ORCHD_POOL_TOKEN') : undefined, brainToken };
}

async function bannerOf(manager: PoolManager): Promise<string> {
  const { settings, token, url, workerCount } = manager;
  const found = await Promise.all(settings.modelRoots.map(isFolder));
  // A missing folder does not prevent the start: workers may be running, and a disk may be mounted later.
  const missing = settings.modelRoots.filter((_, at) => !found[at]);
  const devices = manager.state().gpus.map(({ id, name, total_vram, status }) => {
    const size = `${(total_vram / 2 ** 30).toFixed(1)} GiB`;
    return `device ${id}: ${name}, ${size}${status === 'ok' ? '' : ', cannot be used now'}`;
  });
  return [
    `the pool ${settings.poolId} listens on ${url}`,
    `data: ${settings.data}`,
    ...(devices.length > 0 ? devices : ['no device was found: set --cpu-memory to use the CPU']),
    ...missing.map((root) => `the model folder ${root} does not exist: its models cannot be found`),
    ...(workerCount > 0 ? [`${workerCount} workers were taken over`] : []),
    ...(token === undefined ? [] : ['callers need the token of this pool']),
    'press Ctrl-C to stop',
  ].join('\n');
}

const isFolder = (path: string): Promise<boolean> =>
  stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );

async function stop(manager: PoolManager, logger: Logger, terminal: Terminal): Promise<number> {
  terminal.complain('\nstopping; press Ctrl-C again to end it at once');
  await manager.stop();
  const left = manager.workerCount;
  if (left > 0)
    terminal.complain(
      `${left} workers keep running; the next \`orchd pool\` with this folder takes them over`,
    );
  logger.info('the pool manager has stopped');
  return EXIT.ok;
}
