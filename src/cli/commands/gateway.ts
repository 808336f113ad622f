/** `orchd gateway` and `orchd gateway login SEAT` */
import type { OwnGateway } from '../../adapters/gateway/settings.ts';
import type { ResolvedConfig } from '../../config/resolve.ts';
import type { Gateway } from '../../daemons/gateway/gateway.ts';
import { realEnv } from '../../kit/env/real.ts';
import type { Logger } from '../../kit/logger.ts';
import { within } from '../../kit/within.ts';
import { OrchdError } from '../../model/errors.ts';
import { noPositionals, singlePositional, textOf, wholeOf } from '../arguments.ts';
import { type CliArguments, type Command, EXIT, type Terminal, UsageError } from '../command.ts';
import { daemonLogger, ended } from '../daemon.ts';
import { Interrupt } from '../interrupt.ts';
import { usageOf } from '../options.ts';
import { folderAt, readConfig } from '../settings.ts';

/** Longer than the drain of the gateway; after this long a stop that hangs is no longer waited for. */
const STOP_MS = 45_000;
const DEFAULT_FOLDER = 'data/gateway';
const WORDS = ['login'] as const;

const options = {
  port: {
    type: 'string',
    value: 'N',
    help: 'the port; by default that of gateway.bind_addr; 0 takes a free port',
  },
  host: {
    type: 'string',
    value: 'HOST',
    help: 'the address to listen on; by default 127.0.0.1; any other needs ORCHD_GATEWAY_TOKEN',
  },
  data: {
    type: 'string',
    value: 'DIR',
    help: `the folder in which it remembers requests and results; by default ${DEFAULT_FOLDER}`,
  },
  config: { type: 'string', value: 'FILE', help: 'the configuration file with the section "gateway"' },
} as const;

export const gateway: Command = {
  usage: usageOf({
    call: 'gateway [OPTIONS] | gateway login SEAT [OPTIONS]',
    about: `Runs a gateway in the foreground: a service in front of LLM accounts (gateway.seats of the configuration) that runs one
request at a time on each, and remembers every request, also after a crash. A brain uses it by pool.url.
login opens a window of Chromium with the profile of a seat of the driver browser, in which you log in to its page; it ends
when the page shows its input, or you close the window. It uses the profile in --data: by default that of the gateway that
\`orchd up\` runs, if there is one, else that of one that runs alone. Exit code: 0 logged in, 1 not, 2 could not start.
The log goes to standard output, as JSON lines unless that is a terminal; messages for you go to standard error.
Variables: ORCHD_GATEWAY_TOKEN is the token that callers must send; ORCHD_LOG_LEVEL as for \`orchd up\`.
Exit code: 0 stopped by Ctrl-C or SIGTERM, 1 failed while running, 2 could not start, 130 stopped by a second Ctrl-C.`,
    options,
    examples: [
      'orchd gateway --config gateway.yaml',
      'orchd gateway login chat-1 --config gateway.yaml',
      'orchd gateway --config gateway.yaml --host 0.0.0.0 --data /var/lib/orchd-gateway',
    ],
  }),
  options,
  words: WORDS,
  async run(args, terminal) {
    const [word, ...rest] = args.positionals;
    if (word !== WORDS[0]) noPositionals(args.positionals);
    const seat = word === undefined ? undefined : singlePositional(rest, 'seat');
    const config = await readConfig(args, terminal);
    const settings = await settingsOf(args, config);
    if (seat !== undefined) return login(seat, args, config, settings, terminal);
    const folder = await folderAt(textOf(args.values, 'data') ?? DEFAULT_FOLDER);
    const logger = daemonLogger(config.log.level);
    const interrupt = new Interrupt();
    const started = await start(settings, folder, logger).catch((error: unknown) => {
      ended(EXIT.unusable);
      throw listenFailure(error, settings);
    });
    terminal.complain(bannerOf(started, settings, folder));
    logger.info('the gateway is up');
    return ended(await runToEnd(started, interrupt.received, logger, terminal));
  },
};

async function login(
  seat: string,
  { values }: CliArguments,
  config: ResolvedConfig,
  { seats }: OwnGateway,
  terminal: Terminal,
): Promise<number> {
  const { gatewayLogin, usedGatewayFolder } = await import('./gateway-login.ts');
  const given = textOf(values, 'data');
  const folder =
    given === undefined ? await usedGatewayFolder(config, DEFAULT_FOLDER) : await folderAt(given);
  return gatewayLogin({ seat, seats, folder, terminal });
}

async function settingsOf({ values }: CliArguments, config: ResolvedConfig): Promise<OwnGateway> {
  const { ownGateway } = await import('../../adapters/gateway/settings.ts');
  const given = textOf(values, 'host');
  const host = given ?? config.gateway.host;
  const port = wholeOf(values, 'port', 0, 65_535) ?? config.gateway.port;
  try {
    const changed = { ...config, gateway: { ...config.gateway, host, port } };
    return ownGateway(changed, { variables: process.env, taken: [] });
  } catch (error) {
    if (!(error instanceof OrchdError)) throw error;
    const { message, details } = error;
    if (given !== undefined && details.field === 'gateway.bind_addr')
      throw new UsageError(`--host: ${message}.`);
    throw new OrchdError('CONFIG_INVALID', `${details.field}: ${message}`, details);
  }
}

async function start(settings: OwnGateway, folder: string, logger: Logger): Promise<Gateway> {
  // Loaded only here: the other commands start faster without it.
  const { Gateway } = await import('../../daemons/gateway/gateway.ts');
  const { driverOf } = await import('../../daemons/gateway/drivers/registry.ts');
  const { seatsOrder } = await import('../../adapters/gateway/settings.ts');
  const { host, port, token, allowedHosts, openKeyFiles } = settings;
  const env = realEnv();
  for (const path of openKeyFiles)
    logger.warn('other users of this machine can read the key of a seat', {
      reason: `run: chmod 600 ${path}`,
    });
  const started = new Gateway({
    env,
    logger,
    folder,
    host,
    port,
    token,
    allowedHosts,
    drivers: (order) => driverOf(order, { env, folder }),
  });
  await started.start();
  started.follow(seatsOrder(settings));
  return started;
}

function bannerOf({ url }: Gateway, { seats, token, host }: OwnGateway, folder: string): string {
  const names = seats.map(({ name, driver }) => `${name} (${driver})`);
  return [
    `orchd gateway listens on ${url}`,
    `data: ${folder}`,
    names.length > 0
      ? `seats: ${names.join(', ')}`
      : 'there are no seats: set gateway.seats of the configuration, or send them with PUT /seats',
    token === undefined
      ? `every program of this machine may use it at ${host}: set ORCHD_GATEWAY_TOKEN to demand a token`
      : 'callers need the token in ORCHD_GATEWAY_TOKEN',
    'press Ctrl-C to stop',
  ].join('\n');
}

/** Waits for a signal or an order to stop, or until the disk fails; returns the exit code. */
async function runToEnd(
  started: Gateway,
  stopRequested: Promise<void>,
  logger: Logger,
  terminal: Terminal,
): Promise<number> {
  const failure = await Promise.race([stopRequested, started.ended, started.failed]);
  if (!failure) return stop(started, logger, terminal);
  logger.error('the gateway failed', { error_code: failure.code, reason: failure.message });
  terminal.complain(
    `orchd gateway: ${failure.message}; it ends, and the next start finds what it has on disk`,
  );
  return EXIT.problems;
}

async function stop(started: Gateway, logger: Logger, terminal: Terminal): Promise<number> {
  terminal.complain('\nstopping; running requests may end first; press Ctrl-C again to end it at once');
  const stopped = started.drain().then(() => started.stop());
  const inTime = await within(
    realEnv().timers,
    STOP_MS,
    stopped.then(() => true),
    false,
  );
  if (!inTime) {
    terminal.complain(
      `orchd gateway: it did not stop within ${STOP_MS / 1000} s and is ended now; the next start finds its requests`,
    );
    return EXIT.problems;
  }
  logger.info('the gateway has stopped');
  return EXIT.ok;
}

function listenFailure(error: unknown, { host, port }: OwnGateway): unknown {
  const code = (error as { code?: unknown }).code;
  if (code !== 'EADDRINUSE' && code !== 'EACCES' && code !== 'EADDRNOTAVAIL') return error;
  const hint = code === 'EADDRINUSE' ? ': choose another port with --port' : '';
  return new OrchdError('CONFIG_INVALID', `cannot listen on ${host}:${port} (${code})${hint}`);
}
