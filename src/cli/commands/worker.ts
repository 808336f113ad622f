/** `orchd worker` */
import { hostname } from 'node:os';
import { isHttpUrl, isLoopbackHost } from '../../config/address.ts';
import type { Engine } from '../../daemons/execution/engine.ts';
import type { Worker } from '../../daemons/worker/worker.ts';
import type { Env } from '../../kit/env/env.ts';
import { realEnv } from '../../kit/env/real.ts';
import type { Logger } from '../../kit/logger.ts';
import { Secret } from '../../kit/secret.ts';
import { within } from '../../kit/within.ts';
import { OrchdError } from '../../model/errors.ts';
import { choiceOf, noPositionals, textOf, variable, wholeOf } from '../arguments.ts';
import { type CliArguments, type Command, EXIT, type Terminal, UsageError } from '../command.ts';
import { daemonLogger, ended } from '../daemon.ts';
import { Interrupt } from '../interrupt.ts';
import { usageOf } from '../options.ts';
import { ENGINES, type EngineName, engineOf } from '../worker-engine.ts';

const STOP_MS = 20_000;

const options = {
  engine: { type: 'string', choices: ENGINES, help: 'the software that runs the model; by default demo' },
  model: { type: 'string', value: 'MODEL', help: 'a GGUF file for llama, a name for the other engines' },
  'model-ref': {
    type: 'string',
    value: 'REF',
    help: 'the reference by which others name the model; by default MODEL',
  },
  adapter: {
    type: 'string',
    value: 'FILE',
    help: 'for llama: a LoRA adapter in GGUF form that is applied to the model',
  },
  variant: {
    type: 'string',
    value: 'NAME',
    help: 'a variant of the model; shown in its health, and {variant} in the command of an upstream',
  },
  id: { type: 'string', value: 'ID', help: 'the name of this worker' },
  host: {
    type: 'string',
    value: 'HOST',
    help: 'the address to listen on; by default 127.0.0.1; any other needs ORCHD_WORKER_TOKEN',
  },
  port: { type: 'string', value: 'N', help: 'the port; by default 0, which takes a free port' },
  uri: {
    type: 'string',
    value: 'URL',
    help: 'the address for callers; {port} is replaced; by default made from host and port',
  },
  slots: { type: 'string', value: 'N', help: 'the number of requests that run at once; by default 1' },
  context: {
    type: 'string',
    value: 'N',
    help: 'tokens of prompt and answer together; by default what the model supports',
  },
  gpu: {
    type: 'string',
    choices: ['auto', 'off', 'required'],
    help: 'off makes llama use only the CPU; required makes it fail if it cannot use a GPU',
  },
  threads: {
    type: 'string',
    value: 'N',
    help: 'the number of CPU threads for llama; by default one less than its cores',
  },
  grace: {
    type: 'string',
    value: 'MS',
    help: 'how long running requests may continue after a stop signal; by default 30000',
  },
  'pool-manager': {
    type: 'string',
    value: 'URL',
    help: 'the pool manager to notify when the worker is ready',
  },
  upstream: {
    type: 'string',
    value: 'URL',
    help: 'for openai: the address of the server, without /v1',
  },
  'upstream-command': {
    type: 'string',
    value: 'JSON',
    help: 'for openai: the command of the server, a JSON array with {port}, {model}, {slots}, {context}',
  },
  paid: {
    type: 'string',
    choices: ['yes', 'no'],
    help: 'whether executions cost money; by default yes with ORCHD_UPSTREAM_KEY',
  },
} as const;

export const worker: Command = {
  usage: usageOf({
    call: 'worker [OPTIONS]',
    about: `Runs a worker in the foreground. The log goes to standard output, as JSON lines unless that is a terminal; messages for
you go to standard error. The engine llama needs the package node-llama-cpp beside orchd.
Variables: ORCHD_WORKER_TOKEN is the token that callers must send; ORCHD_WORKER_LEDGER is a file that gets a line for
every execution that begins; ORCHD_UPSTREAM_KEY is the key for the upstream; ORCHD_LOG_LEVEL as for \`orchd up\`.
Exit code: 0 stopped by a signal, 1 failed while running, 2 could not start, 130 stopped by a second Ctrl-C.`,
    options,
    examples: [
      'orchd worker --port 9300',
      'orchd worker --engine llama --model models/qwen3-8b.gguf --slots 4',
      'orchd worker --engine openai --model qwen3 --upstream http://127.0.0.1:8000',
    ],
  }),
  options,
  async run(args, terminal) {
    noPositionals(args.positionals);
    const settings = await settingsOf(args);
    const env = realEnv();
    const logger = daemonLogger(levelOf()).child({ worker_id: settings.id, model_ref: settings.modelRef });
    const interrupt = new Interrupt();
    const engine = await engineOf(args, { env, logger, ...settings });
    const started = await start(settings, env, logger, engine);
    terminal.complain(`orchd worker ${settings.id} listens on ${started.url}`);
    return ended(await runToEnd(started, settings, interrupt.received, logger, terminal));
  },
};

interface Settings {
  readonly engine: EngineName;
  readonly model: string;
  readonly modelRef: string;
  readonly adapter: string | undefined;
  readonly variant: string | undefined;
  readonly id: string;
  readonly host: string;
  readonly port: number;
  readonly uri: string | undefined;
  readonly poolManager: string | undefined;
  readonly graceMs: number | undefined;
  readonly paid: boolean;
}

async function settingsOf({ values }: CliArguments): Promise<Settings> {
  const { WORKER_NAME } = await import('../../model/pool-wire.ts');
  const engine = choiceOf(values, 'engine', ENGINES) ?? 'demo';
  const model = textOf(values, 'model') ?? (engine === 'demo' ? 'demo' : undefined);
  if (model === undefined) throw new UsageError('the model is missing: --model MODEL.');
  const id =
    textOf(values, 'id') ??
    `${hostname()
      .replace(/[^A-Za-z0-9._-]/g, '-')
      .slice(0, 40)}-${process.pid}`;
  if (!new RegExp(WORKER_NAME).test(id)) throw new UsageError(`"${id}" cannot be the name of a worker.`);
  return {
    engine,
    model,
    modelRef: textOf(values, 'model-ref') ?? model,
    adapter: textOf(values, 'adapter'),
    variant: textOf(values, 'variant'),
    id,
    host: textOf(values, 'host') ?? '127.0.0.1',
    port: wholeOf(values, 'port', 0, 65_535) ?? 0,
    uri: urlOf(values, 'uri'),
    poolManager: urlOf(values, 'pool-manager'),
    graceMs: wholeOf(values, 'grace', 0, 86_400_000),
    paid: isPaid(values, engine),
  };
}

/** A server that asks for a key charges for its work, unless the option says otherwise. */
function isPaid(values: CliArguments['values'], engine: EngineName): boolean {
  const given = choiceOf(values, 'paid', ['yes', 'no']);
  if (given !== undefined) return given === 'yes';
  return engine === 'openai' && variable('ORCHD_UPSTREAM_KEY') !== undefined;
}

function urlOf(values: CliArguments['values'], name: string): string | undefined {
  const text = textOf(values, name);
  if (text === undefined || isHttpUrl(text.replaceAll('{port}', '1'))) return text;
  throw new UsageError(`--${name} needs an address like http://127.0.0.1:9200, not "${text}".`);
}

function levelOf(): 'debug' | 'info' | 'warn' | 'error' {
  const level = variable('ORCHD_LOG_LEVEL');
  return level === 'debug' || level === 'warn' || level === 'error' ? level : 'info';
}

async function start(settings: Settings, env: Env, logger: Logger, engine: Engine): Promise<Worker> {
  // Loaded only here: the other commands start faster without it.
  const { Worker } = await import('../../daemons/worker/worker.ts');
  const { fileLedger } = await import('../../daemons/execution/ledger.ts');
  const ledger = variable('ORCHD_WORKER_LEDGER');
  const token = variable('ORCHD_WORKER_TOKEN');
  const started = new Worker({
    ...settings,
    env,
    logger,
    engine,
    token: token === undefined ? undefined : new Secret(token),
    ledger: ledger === undefined ? undefined : fileLedger(ledger),
  });
  try {
    await started.start();
    return started;
  } catch (error) {
    throw listenFailure(error, settings);
  }
}

/** Waits for a signal to stop, or until the worker fails; returns the exit code. */
async function runToEnd(
  started: Worker,
  { engine, model }: Settings,
  stopRequested: Promise<void>,
  logger: Logger,
  terminal: Terminal,
): Promise<number> {
  started.loaded.then(
    ({ model, slots, contextLength, threads }) => {
      const cpu = threads === undefined ? '' : `, ${threads} CPU threads`;
      terminal.complain(`ready: ${model}, ${slots} at once, a context of ${contextLength}${cpu}`);
    },
    () => undefined,
  );
  const drained = stopRequested.then(() => started.drain());
  const failure = await Promise.race([started.failure, started.drained, drained]);
  // After STOP_MS a stop that hangs is no longer waited for.
  const stopped = within(
    realEnv().timers,
    STOP_MS,
    started.stop().catch(() => undefined),
    undefined,
  );
  if (failure === undefined) {
    await stopped;
    logger.info('the worker has stopped');
    return EXIT.ok;
  }
  const { message, code } = failure as { message?: string; code?: string };
  logger.error('the worker failed', { error_code: code ?? 'INTERNAL', reason: message });
  // Answers to callers contain no path of this machine; the person who started the worker sees the path.
  terminal.complain(`orchd worker: ${engine === 'llama' ? `${model}: ` : ''}${message}`);
  await stopped;
  return EXIT.problems;
}

function listenFailure(error: unknown, { host, port }: Settings): unknown {
  const code = (error as { code?: unknown }).code;
  if (code !== 'EADDRINUSE' && code !== 'EACCES' && code !== 'EADDRNOTAVAIL') return error;
  const hint = isLoopbackHost(host) && code === 'EADDRINUSE' ? '; --port 0 takes a free one' : '';
  return new OrchdError('CONFIG_INVALID', `cannot listen on ${host}:${port} (${code})${hint}`);
}
