/** `orchd worker` */
import { hostname } from 'node:os';
import { isHttpUrl, isLoopbackHost } from '../../config/address.ts';
import type { Engine } from '../../daemons/worker/engine.ts';
import type { Worker } from '../../daemons/worker/worker.ts';
import type { Env } from '../../kit/env/env.ts';
import { realEnv } from '../../kit/env/real.ts';
import type { Logger } from '../../kit/logger.ts';
import { Secret } from '../../kit/secret.ts';
import { within } from '../../kit/within.ts';
import { OrchdError } from '../../model/errors.ts';
import { type Command, EXIT, type Given, type Terminal, UsageError } from '../command.ts';
import { daemonLogger, ended } from '../daemon.ts';
import { choiceOf, noWords, textOf, variable, wholeOf } from '../given.ts';
import { Interrupt } from '../interrupt.ts';
import { usageOf } from '../options.ts';
import { ENGINES, type EngineName, engineOf } from '../worker-engine.ts';

const STOP_MS = 20_000;

const options = {
  engine: { type: 'string', choices: ENGINES, says: 'what holds the model; demo by default' },
  model: { type: 'string', value: 'MODEL', says: 'a GGUF file for llama, a name for the others' },
  'model-ref': { type: 'string', value: 'REF', says: 'what the model is called by others; MODEL by default' },
  id: { type: 'string', value: 'ID', says: 'the name of this worker' },
  host: { type: 'string', value: 'HOST', says: '127.0.0.1 by default; any other needs ORCHD_WORKER_TOKEN' },
  port: { type: 'string', value: 'N', says: 'the port; 0, the default, takes a free one' },
  uri: {
    type: 'string',
    value: 'URL',
    says: 'where others reach it; {port} is filled in; from host and port by default',
  },
  slots: { type: 'string', value: 'N', says: 'how many run at once; 1 by default' },
  context: {
    type: 'string',
    value: 'N',
    says: 'tokens of prompt and answer together; as the model has it by default',
  },
  gpu: { type: 'string', choices: ['auto', 'off'], says: 'off keeps llama on the processor' },
  threads: { type: 'string', value: 'N', says: 'of the processor, for llama; all by default' },
  grace: { type: 'string', value: 'MS', says: 'for what runs when it is told to stop; 30000 by default' },
  'pool-manager': { type: 'string', value: 'URL', says: 'who is told when it is ready' },
  upstream: {
    type: 'string',
    value: 'URL',
    says: 'for openai: the server that answers, up to and without /v1',
  },
  'upstream-command': {
    type: 'string',
    value: 'JSON',
    says: 'for openai: a list of words that starts that server; {port} and {model} are filled in',
  },
} as const;

export const worker: Command = {
  usage: usageOf({
    call: 'worker [OPTIONS]',
    about: `Runs in the foreground. The log goes to standard output, a JSON object per line where that is no terminal;
what is meant for you goes to standard error. The engine llama needs the package node-llama-cpp beside orchd.
Variables: ORCHD_WORKER_TOKEN is what callers must show; ORCHD_WORKER_LEDGER names a file that gets a line for
every execution that was begun; ORCHD_UPSTREAM_KEY is shown to the upstream; ORCHD_LOG_LEVEL as for \`orchd up\`.
Exit code: 0 told to stop, 1 failed while running, 2 could not start, 130 stopped by a second Ctrl-C.`,
    options,
    examples: [
      'orchd worker --port 9300',
      'orchd worker --engine llama --model models/qwen3-8b.gguf --slots 4',
      'orchd worker --engine openai --model qwen3 --upstream http://127.0.0.1:8000',
    ],
  }),
  options,
  async run(given, terminal) {
    noWords(given.positionals);
    const settings = await settingsOf(given);
    const env = realEnv();
    const logger = daemonLogger(levelOf()).child({ worker_id: settings.id, model_ref: settings.modelRef });
    const interrupt = new Interrupt();
    const engine = await engineOf(given, { env, logger, ...settings });
    const started = await start(settings, env, logger, engine);
    terminal.complain(`orchd worker ${settings.id} listens on ${started.url}`);
    return ended(await runToEnd(started, settings, interrupt.asked, logger, terminal));
  },
};

interface Settings {
  readonly engine: EngineName;
  readonly model: string;
  readonly modelRef: string;
  readonly id: string;
  readonly host: string;
  readonly port: number;
  readonly uri: string | undefined;
  readonly poolManager: string | undefined;
  readonly graceMs: number | undefined;
}

async function settingsOf({ values }: Given): Promise<Settings> {
  const { WORKER_NAME } = await import('../../model/pool-wire.ts');
  const engine = choiceOf(values, 'engine', ENGINES) ?? 'demo';
  const model = textOf(values, 'model') ?? (engine === 'demo' ? 'demo' : undefined);
  if (model === undefined) throw new UsageError(`which model? --model names it.`);
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
    id,
    host: textOf(values, 'host') ?? '127.0.0.1',
    port: wholeOf(values, 'port', 0, 65_535) ?? 0,
    uri: urlOf(values, 'uri'),
    poolManager: urlOf(values, 'pool-manager'),
    graceMs: wholeOf(values, 'grace', 0, 86_400_000),
  };
}

function urlOf(values: Given['values'], name: string): string | undefined {
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
  const { fileLedger } = await import('../../daemons/worker/ledger.ts');
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

/** Until it is asked to stop, or cannot go on; returns the exit code. */
async function runToEnd(
  started: Worker,
  { engine, model }: Settings,
  asked: Promise<void>,
  logger: Logger,
  terminal: Terminal,
): Promise<number> {
  started.loaded.then(
    ({ model, slots, contextLength }) =>
      terminal.complain(`ready: ${model}, ${slots} at once, a context of ${contextLength}`),
    () => undefined,
  );
  const drained = asked.then(() => started.drain());
  const failure = await Promise.race([started.failure, started.drained, drained]);
  // A stop that hangs is given up.
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
  // Callers are told no path of this machine; who has written it here is told which.
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
