/** `orchd up` */

import { existsSync } from 'node:fs';
import { isAbsolute } from 'node:path';
import type { RunningServer, ServerOptions } from '../../app/parts.ts';
import type { ConfiguredBackend } from '../../backends/descriptor.ts';
import type { ResolvedConfig } from '../../config/resolve.ts';
import type { UpstreamConfig } from '../../config/upstreams.ts';
import { realEnv } from '../../kit/env/real.ts';
import type { Logger } from '../../kit/logger.ts';
import { within } from '../../kit/within.ts';
import { OrchdError } from '../../model/errors.ts';
import { MAX_UPSTREAM_SLOTS } from '../../model/upstream-limits.ts';
import { flagOf, listOf, noPositionals, textOf, variable, wholeOf } from '../arguments.ts';
import { type CliArguments, type Command, EXIT, type Terminal, UsageError } from '../command.ts';
import { daemonLogger, ended } from '../daemon.ts';
import { Hangup } from '../hangup.ts';
import { Interrupt } from '../interrupt.ts';
import { COPY_OPTION, DATA_OPTIONS, usageOf } from '../options.ts';
import { packageVersion } from '../package-version.ts';
import { dataFolder, folderAt } from '../settings.ts';
import { type BannerParts, bannerText, callableUrl, ownCommand } from '../text/banner.ts';
import { stoppedText } from '../text/stop-text.ts';
import { TokenStore } from '../token-store.ts';
import { readUpConfig } from '../up-config.ts';

const FAILURE_POLL_MS = 250;
/** Longer than the drain of the brain; after this long a stop that hangs is no longer waited for. */
const STOP_MS = 20_000;
/** After a Ctrl-C during the start: how long to wait until the server is up, because only then it can be stopped in order. */
const START_MS = 5000;
const DEFAULT_URL = 'http://127.0.0.1:8080';

const options = {
  port: { type: 'string', value: 'N', help: 'the port; 0 takes a free port' },
  host: {
    type: 'string',
    value: 'HOST',
    help: 'the address to listen on; one that other machines can reach needs a token first',
  },
  model: {
    type: 'string',
    value: 'FILE',
    multiple: true,
    help: 'a model to run on this machine: a GGUF file, or a reference such as hf:org/repo',
  },
  upstream: {
    type: 'string',
    value: 'URL',
    multiple: true,
    help: 'a server with an OpenAI-compatible API, such as Ollama or vLLM, whose models are offered here',
  },
  'upstream-key-env': {
    type: 'string',
    value: 'NAME',
    help: 'the environment variable that holds the API key of the upstream, which then counts as paid',
  },
  'upstream-slots': {
    type: 'string',
    value: 'N',
    help: 'the number of jobs that an upstream gets at once; by default what it says, else 4',
  },
  context: {
    type: 'string',
    value: 'TOKENS',
    help: 'the context length of these models in tokens; by default at most 8192',
  },
  ...DATA_OPTIONS,
  'this-is-a-copy': COPY_OPTION,
} as const;

export const up: Command = {
  usage: usageOf({
    call: 'up [OPTIONS]',
    about: `Runs the server in the foreground. The log goes to standard output, as JSON lines unless that is a terminal; messages
for you go to standard error. Every key of the configuration can also be set by an environment variable, such as
ORCHD_LOG_LEVEL. ORCHD_WORKER_ARGS contains options for the workers of --model (see \`orchd worker --help\`).
SIGHUP reads the configuration file again, as \`orchd reload\` does.
Exit code: 0 stopped by Ctrl-C or SIGTERM, 1 failed while running, 2 could not start, 130 stopped by a second Ctrl-C.`,
    options,
    examples: [
      'orchd up',
      'orchd up --port 9000 --data /var/lib/orchd',
      'orchd up --config config.yaml > orchd.log',
      'orchd up --model llama-3.2-1b-instruct.gguf',
      'orchd up --upstream http://127.0.0.1:11434',
      'orchd up --upstream https://openrouter.ai/api/v1 --upstream-key-env OPENROUTER_API_KEY',
    ],
  }),
  options,
  async run(args, terminal) {
    noPositionals(args.positionals);
    // Before the first wait: from here on a SIGHUP does not end the process.
    const hangup = new Hangup();
    const overrides = overridesOf(args);
    const { loaded, configuredUpstreams, file } = await readUpConfig(args, await upstreamsOf(args), terminal);
    const { config } = loaded;
    const data = await folderAt(dataFolder(args, config));
    const logger = daemonLogger(config.log.level);
    const interrupt = new Interrupt();
    const stopRequested = Promise.race([interrupt.received, hangup.terminalClosed]);
    const starting = start({ ...overrides, configFile: file }, config, data, logger);
    const server = await Promise.race([starting, stopRequested]).catch((error: unknown) => {
      ended(EXIT.unusable);
      throw optionError(error, configuredUpstreams);
    });
    if (!server) return ended(await stopEarly(starting, terminal));
    terminal.complain(await banner(server, config, data));
    logger.info('orchd is up');
    // What came of it is logged, and in the reports of `GET /control/reload`.
    hangup.obey(() => void server.reload?.('SIGHUP').catch(() => undefined));
    void stopRequested.then(() => hangup.ignore());
    return ended(await runToEnd(server, stopRequested, logger, terminal));
  },
};

/**
 * An error about a model or an upstream names the option with which it was given, or the key of the configuration.
 * `configured` is the number of upstreams in the configuration, which stand before those of the command line.
 */
function optionError(error: unknown, configured: number): unknown {
  if (!(error instanceof OrchdError)) return error;
  const { message, details } = error;
  if (details.field === 'model') return new UsageError(`--model: ${message}.`);
  if (details.field?.startsWith('gateway.'))
    return new OrchdError('CONFIG_INVALID', `${details.field}: ${message}`, details);
  const [field, at, key] = /^backends\.upstreams\[(\d+)\](?:\.(\w+))?$/.exec(details.field ?? '') ?? [];
  if (field === undefined) return error;
  if (Number(at) < configured) return new OrchdError('CONFIG_INVALID', `${field}: ${message}`, details);
  return new UsageError(`${key === 'key_env' ? '--upstream-key-env' : '--upstream'}: ${message}.`);
}

/** The upstreams of the command line, in the form of the configuration. */
async function upstreamsOf({ values }: CliArguments): Promise<readonly UpstreamConfig[]> {
  const urls = listOf(values, 'upstream');
  const key_env = textOf(values, 'upstream-key-env');
  const slots = wholeOf(values, 'upstream-slots', 1, MAX_UPSTREAM_SLOTS);
  if (key_env !== undefined && urls.length !== 1)
    throw new UsageError(
      '--upstream-key-env needs exactly one --upstream: the key must not reach another server. For several, set key_env of each in backends.upstreams of the configuration.',
    );
  const { upstreamBase } = await import('../../config/upstream-address.ts');
  for (const url of urls) {
    const { problem } = upstreamBase(url);
    if (problem !== undefined)
      throw new UsageError(`--upstream: ${problem}${problem.endsWith('?') ? '' : '.'}`);
  }
  return urls.map((url) => ({
    url,
    ...(key_env !== undefined && { key_env }),
    ...(slots !== undefined && { slots }),
  }));
}

/** Waits for a signal to stop, or until the server stops by itself; returns the exit code. */
export async function runToEnd(
  server: RunningServer,
  stopRequested: Promise<void>,
  logger: Logger,
  terminal: Terminal,
): Promise<number> {
  const failure = await Promise.race([stopRequested, failureOf(server)]);
  return failure === undefined ? stopInOrder(server, logger, terminal) : giveUp(failure, server, terminal);
}

/** Handles a signal to stop that came before the server is up; returns the exit code. */
export async function stopEarly(
  starting: Promise<RunningServer>,
  terminal: Terminal,
  atMostMs = START_MS,
): Promise<number> {
  terminal.complain('\nstopping before it is up; press Ctrl-C again to end it at once');
  // A start that fails leaves nothing behind.
  const server = await within(
    realEnv().timers,
    atMostMs,
    starting.catch(() => undefined),
    'late',
  );
  if (server !== 'late') return server === undefined || (await stopped(server)) ? EXIT.ok : cutOff(terminal);
  return cutOff(terminal, atMostMs);
}

/** The settings that the command line overrides. */
type Overrides = Pick<ServerOptions, 'host' | 'port' | 'models' | 'contextLength' | 'isCopy' | 'configFile'>;

function overridesOf({ values }: CliArguments): Overrides {
  const host = textOf(values, 'host');
  const port = wholeOf(values, 'port', 0, 65_535);
  return {
    ...(host !== undefined && { host }),
    ...(port !== undefined && { port }),
    models: listOf(values, 'model'),
    isCopy: flagOf(values, 'this-is-a-copy'),
    contextLength: wholeOf(values, 'context', 1, 100_000_000),
  };
}

async function start(
  overrides: Overrides,
  config: ResolvedConfig,
  data: string,
  logger: Logger,
): Promise<RunningServer> {
  // Loaded only here: the other commands start faster without the whole server.
  const { startServer } = await import('../../app/server.ts');
  return startServer({
    config,
    data,
    version: packageVersion(),
    logger,
    workerArgs: variable('ORCHD_WORKER_ARGS')?.split(/\s+/) ?? [],
    ...overrides,
  });
}

async function banner(server: RunningServer, config: ResolvedConfig, data: string): Promise<string> {
  const { configuredBackends, hasOtherServers } = await import('../../backends/registry.ts');
  const configured = configuredBackends(config);
  const tokens = new TokenStore(realEnv(), data);
  return bannerText({
    version: packageVersion(),
    url: server.url,
    data,
    needsToken: (await tokens.list()).length > 0,
    hasBackends: configured.length > 0 || hasOtherServers(config),
    pools: config.pool.managerUrls.length,
    missing: missingPrograms(configured),
    models: server.models ?? [],
    hasOtherServers: hasOtherServers(config),
    exampleModel: configured.find(({ exampleModel }) => exampleModel)?.exampleModel,
    command: ownCommand(process.argv[1]),
    exampleType: configured.flatMap(({ programs = {} }) => Object.keys(programs))[0],
    isDefaultUrl: callableUrl(server.url) === DEFAULT_URL,
  });
}

/** Only absolute paths can be checked: other names are looked up when the command is run. */
function missingPrograms(configured: readonly ConfiguredBackend[]): BannerParts['missing'] {
  const isMissing = (program = ''): boolean => isAbsolute(program) && !existsSync(program);
  return configured.flatMap(({ name, programs = {} }) =>
    Object.keys(programs)
      .filter((type) => isMissing(programs[type]))
      .map((type) => ({ backend: name, type })),
  );
}

/** Resolves when the brain has stopped by itself because of an error. */
function failureOf(server: RunningServer): Promise<Error> {
  return new Promise((resolve) => {
    const timer = setInterval(() => {
      if (!server.failure) return;
      clearInterval(timer);
      resolve(server.failure);
    }, FAILURE_POLL_MS).unref();
  });
}

async function stopInOrder(server: RunningServer, logger: Logger, terminal: Terminal): Promise<number> {
  terminal.complain('\nstopping; press Ctrl-C again to end it at once');
  logger.info('orchd stops');
  const inTime = await stopped(server);
  if (inTime) {
    logger.info('orchd has stopped');
    if (server.left) terminal.complain(stoppedText(server.left, server.hasNodes ?? false));
    return EXIT.ok;
  }
  return cutOff(terminal);
}

function cutOff(terminal: Terminal, afterMs = STOP_MS): number {
  terminal.complain(
    `orchd up: it did not stop within ${afterMs / 1000} s and is ended now; no acknowledged work is lost`,
  );
  return EXIT.problems;
}

async function giveUp(failure: Error, server: RunningServer, terminal: Terminal): Promise<number> {
  const next = (failure as { next?: string }).next;
  terminal.complain(
    `orchd up: the brain has stopped: ${failure.message}${next === undefined ? '' : `\n${next}`}`,
  );
  await stopped(server).catch(() => undefined);
  return EXIT.problems;
}

const stopped = (server: RunningServer): Promise<boolean> =>
  within(
    realEnv().timers,
    STOP_MS,
    server.stop().then(() => true),
    false,
  );
