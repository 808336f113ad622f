/** `orchd pool` */
import { stat } from 'node:fs/promises';
import type { PoolConfig } from '../../daemons/pool-manager/config.ts';
import type { PoolManager } from '../../daemons/pool-manager/pool-manager.ts';
import type { Logger } from '../../kit/logger.ts';
import { type Command, EXIT, type Given, type Terminal, UsageError } from '../command.ts';
import { daemonLogger, ended } from '../daemon.ts';
import { flagOf, listOf, noWords, numberOf, textOf, variable, wholeOf } from '../given.ts';
import { Interrupt } from '../interrupt.ts';
import { fileText } from '../json-argument.ts';
import { usageOf } from '../options.ts';
import { folderAt } from '../settings.ts';

const options = {
  id: { type: 'string', value: 'NAME', says: 'the name of this pool; that of the machine by default' },
  port: { type: 'string', value: 'N', says: 'the port; 9200 by default, 0 takes a free one' },
  host: { type: 'string', value: 'HOST', says: 'the address; one that others can reach has a token' },
  advertise: {
    type: 'string',
    value: 'HOST',
    says: 'the name or address by which the brain reaches this machine',
  },
  data: { type: 'string', value: 'DIR', says: 'the folder of the pool; data/pool by default' },
  config: { type: 'string', value: 'FILE', says: 'a configuration in YAML; options go before it' },
  models: { type: 'string', value: 'DIR', multiple: true, says: 'a folder in which file: may name models' },
  'cpu-memory': {
    type: 'string',
    value: 'BYTES|SHARE',
    says: 'memory for models on the processor; half of it where there is no other device',
  },
  'token-file': {
    type: 'string',
    value: 'FILE',
    says: 'the token that callers show; made where it is not there. ORCHD_POOL_TOKEN by default',
  },
  brain: {
    type: 'string',
    value: 'URL[,URL]',
    says: 'where this pool makes itself known; shows ORCHD_TOKEN there',
  },
  'brain-token-file': { type: 'string', value: 'FILE', says: 'the token that is shown to the brain' },
  'hf-endpoint': {
    type: 'string',
    value: 'URL',
    says: 'where models that are not in the cache are fetched from',
  },
  'end-workers': {
    type: 'boolean',
    says: 'end the workers on stopping; by default they go on for the next manager',
  },
} as const;

export const pool: Command = {
  usage: usageOf({
    call: 'pool [OPTIONS]',
    about: `Runs in the foreground. It starts, drains and stops workers as the brain tells it, and chooses nothing by
itself. The log goes to standard output, a JSON object per line where that is no terminal; what is meant for you
goes to standard error.
Exit code: 0 stopped by Ctrl-C or SIGTERM, 2 could not start, 130 stopped by a second Ctrl-C.`,
    options,
    examples: [
      'orchd pool --models /srv/models',
      'orchd pool --brain http://127.0.0.1:8080 --id gpu-box',
      'orchd pool --host 0.0.0.0 --advertise gpu-box.local --config pool.yaml',
    ],
  }),
  options,
  async run(given, terminal) {
    noWords(given.positionals);
    const { config, tokens } = await settingsOf(given);
    const logger = daemonLogger();
    const interrupt = new Interrupt();
    // Loaded only here: the other commands start faster without it.
    const { startPool } = await import('../../daemons/pool-manager/pool-manager.ts');
    const manager = await startPool({
      config,
      logger,
      ...tokens,
      endWorkers: flagOf(given.values, 'end-workers'),
    }).catch((error: unknown) => {
      ended(EXIT.unusable);
      throw error;
    });
    terminal.complain(await bannerOf(manager));
    logger.info('the pool manager is up');
    await interrupt.asked;
    return ended(await stop(manager, logger, terminal));
  },
};

interface Tokens {
  readonly token: string | undefined;
  readonly brainToken: string | undefined;
}

async function settingsOf({ values }: Given): Promise<{ config: PoolConfig; tokens: Tokens }> {
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
  const given = Object.entries(flags).filter(([, value]) => value !== undefined);
  let config: PoolConfig;
  try {
    config = checkedPoolConfig({ ...file, ...Object.fromEntries(given) });
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
  // No reason not to start: workers may be running, and a disk may be mounted later.
  const missing = settings.modelRoots.filter((_, at) => !found[at]);
  const devices = manager.state().gpus.map(({ id, name, total_vram, status }) => {
    const size = `${(total_vram / 2 ** 30).toFixed(1)} GiB`;
    return `device ${id}: ${name}, ${size}${status === 'ok' ? '' : ', cannot be used now'}`;
  });
  return [
    `the pool ${settings.poolId} listens on ${url}`,
    `data: ${settings.data}`,
    ...(devices.length > 0 ? devices : ['there is no device: set --cpu-memory to use the processor']),
    ...missing.map((root) => `there is no folder ${root}: until there is, no model is found in it`),
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
  terminal.complain('\nstopping; Ctrl-C again ends it at once');
  await manager.stop();
  const left = manager.workerCount;
  if (left > 0)
    terminal.complain(`${left} workers go on; the next \`orchd pool\` with this folder takes them over`);
  logger.info('the pool manager has stopped');
  return EXIT.ok;
}
