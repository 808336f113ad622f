/** `orchd up` */

import { existsSync } from 'node:fs';
import { isAbsolute } from 'node:path';
import type { RunningServer, ServerOptions } from '../../app/parts.ts';
import type { ConfiguredBackend } from '../../backends/descriptor.ts';
import type { ResolvedConfig } from '../../config/resolve.ts';
import { realEnv } from '../../kit/env/real.ts';
import type { Logger } from '../../kit/logger.ts';
import { within } from '../../kit/within.ts';
import { OrchdError } from '../../model/errors.ts';
import { type Command, EXIT, type Given, type Terminal, UsageError } from '../command.ts';
import { daemonLogger, ended } from '../daemon.ts';
import { listOf, noWords, textOf, variable, wholeOf } from '../given.ts';
import { Interrupt } from '../interrupt.ts';
import { DATA_OPTIONS, usageOf } from '../options.ts';
import { packageVersion } from '../package-version.ts';
import { dataFolder, folderAt, readConfig } from '../settings.ts';
import { type BannerParts, bannerText, ownCommand } from '../text/banner.ts';
import { TokenStore } from '../token-store.ts';

const FAILURE_POLL_MS = 250;
/** Longer than the drain of the brain; a stop that hangs is given up. */
const STOP_MS = 20_000;
/** For a start that is no longer wanted: what it has begun is ended in order only once it is up. */
const START_MS = 5000;
const DEFAULT_URL = 'http://127.0.0.1:8080';

const options = {
  port: { type: 'string', value: 'N', says: 'the port; 0 takes a free one' },
  host: { type: 'string', value: 'HOST', says: 'the address; one that others can reach needs a token first' },
  model: {
    type: 'string',
    value: 'FILE',
    multiple: true,
    says: 'a GGUF file, or a reference such as hf:org/repo, that is answered from this machine',
  },
  context: {
    type: 'string',
    value: 'TOKENS',
    says: 'how long the context of these models is; at most 8192 unless told',
  },
  ...DATA_OPTIONS,
} as const;

export const up: Command = {
  usage: usageOf({
    call: 'up [OPTIONS]',
    about: `Runs in the foreground. The log goes to standard output, a JSON object per line where that is no terminal;
what is meant for you goes to standard error. Every key of the configuration can also be set by a variable, such
as ORCHD_LOG_LEVEL. ORCHD_WORKER_ARGS holds options for the workers of --model, as \`orchd worker --help\` lists
them.
Exit code: 0 stopped by Ctrl-C or SIGTERM, 1 failed while running, 2 could not start, 130 stopped by a second Ctrl-C.`,
    options,
    examples: [
      'orchd up',
      'orchd up --port 9000 --data /var/lib/orchd',
      'orchd up --config config.yaml > orchd.log',
      'orchd up --model llama-3.2-1b-instruct.gguf',
    ],
  }),
  options,
  async run(given, terminal) {
    noWords(given.positionals);
    const asked = askedOf(given);
    const config = await readConfig(given);
    const data = await folderAt(dataFolder(given, config));
    const logger = daemonLogger(config.log.level);
    const interrupt = new Interrupt();
    const starting = start(asked, config, data, logger);
    const server = await Promise.race([starting, interrupt.asked]).catch((error: unknown) => {
      ended(EXIT.unusable);
      throw optionError(error);
    });
    if (!server) return ended(await stopEarly(starting, terminal));
    terminal.complain(await banner(server, config, data));
    logger.info('orchd is up');
    return ended(await runToEnd(server, interrupt.asked, logger, terminal));
  },
};

/** An error about a model is about the option that named it. */
function optionError(error: unknown): unknown {
  const isOfModel = error instanceof OrchdError && error.details.field === 'model';
  return isOfModel ? new UsageError(`--model: ${error.message}.`) : error;
}

/** Until it is asked to stop, or stops by itself; returns the exit code. */
export async function runToEnd(
  server: RunningServer,
  asked: Promise<void>,
  logger: Logger,
  terminal: Terminal,
): Promise<number> {
  const failure = await Promise.race([asked, failureOf(server)]);
  return failure === undefined ? stopInOrder(server, logger, terminal) : giveUp(failure, server, terminal);
}

/** Asked to stop before it is up; returns the exit code. */
export async function stopEarly(
  starting: Promise<RunningServer>,
  terminal: Terminal,
  atMostMs = START_MS,
): Promise<number> {
  terminal.complain('\nstopping before it is up; Ctrl-C again ends it at once');
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

type Asked = Pick<ServerOptions, 'host' | 'port' | 'models' | 'contextLength'>;

function askedOf({ values }: Given): Asked {
  const host = textOf(values, 'host');
  const port = wholeOf(values, 'port', 0, 65_535);
  return {
    ...(host !== undefined && { host }),
    ...(port !== undefined && { port }),
    models: listOf(values, 'model'),
    contextLength: wholeOf(values, 'context', 1, 100_000_000),
  };
}

async function start(
  asked: Asked,
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
    ...asked,
  });
}

async function banner(server: RunningServer, config: ResolvedConfig, data: string): Promise<string> {
  const { configuredBackends } = await import('../../backends/registry.ts');
  const configured = configuredBackends(config);
  const tokens = new TokenStore(realEnv(), data);
  return bannerText({
    version: packageVersion(),
    url: server.url,
    data,
    needsToken: (await tokens.list()).length > 0,
    hasBackends: configured.length > 0,
    missing: missingPrograms(configured),
    models: server.models ?? [],
    exampleModel: configured.find(({ exampleModel }) => exampleModel)?.exampleModel,
    command: ownCommand(process.argv[1]),
    isDefaultUrl: server.url === DEFAULT_URL,
  });
}

/** Names without a folder are looked up when they are run, and relative ones from the folder they run in. */
function missingPrograms(configured: readonly ConfiguredBackend[]): BannerParts['missing'] {
  const isMissing = (program = ''): boolean => isAbsolute(program) && !existsSync(program);
  return configured.flatMap(({ name, programs = {} }) =>
    Object.keys(programs)
      .filter((type) => isMissing(programs[type]))
      .map((type) => ({ backend: name, type })),
  );
}

/** Settles when the brain has stopped by itself. */
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
  terminal.complain('\nstopping; Ctrl-C again ends it at once');
  logger.info('orchd stops');
  const inTime = await stopped(server);
  if (inTime) {
    logger.info('orchd has stopped');
    return EXIT.ok;
  }
  return cutOff(terminal);
}

function cutOff(terminal: Terminal, afterMs = STOP_MS): number {
  terminal.complain(
    `orchd up: it did not stop within ${afterMs / 1000} s and is ended; nothing acknowledged is lost`,
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
