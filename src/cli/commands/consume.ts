/** `orchd consume --pool P --type T -- COMMAND`: runs a command for each job of a pool. */
import { resolve } from 'node:path';
import { isHttpUrl } from '../../config/address.ts';
import type { ConsumeOptions } from '../../daemons/consumer/consume.ts';
import { realEnv } from '../../kit/env/real.ts';
import { durationOf, listOf, textOf, variable, wholeOf } from '../arguments.ts';
import { type CliArguments, type Command, EXIT, UsageError } from '../command.ts';
import { daemonLogger, ended } from '../daemon.ts';
import { Interrupt } from '../interrupt.ts';
import { SERVER_OPTIONS, usageOf } from '../options.ts';
import { serverUrl } from '../remote.ts';

const DEFAULTS = { slots: 1, graceMs: 30_000 } as const;
const MAX_SLOTS = 1000;
const MAX_GPU_MEMORY_MB = 100_000_000;

const options = {
  pool: { type: 'string', value: 'POOL', help: 'the pool whose jobs it runs' },
  type: {
    type: 'string',
    value: 'TYPE',
    multiple: true,
    help: 'a type of jobs that it runs; may be given several times',
  },
  slots: { type: 'string', value: 'N', help: 'how many jobs it runs at once; by default 1' },
  state: {
    type: 'string',
    value: 'DIR',
    help: 'the folder of what it has claimed and runs; by default orchd-consume-POOL',
  },
  name: { type: 'string', value: 'NAME', help: 'its name in the pool; by default one of its own' },
  model: { type: 'string', value: 'MODEL', multiple: true, help: 'a model that it has' },
  'gpu-memory': {
    type: 'string',
    value: 'MB',
    help: 'the GPU memory of a job; each gets a GPU with CUDA_VISIBLE_DEVICES',
  },
  'gpu-pool': {
    type: 'string',
    value: 'POOL',
    help: 'the pool of this machine, whose GPUs its jobs may use',
  },
  paid: { type: 'boolean', help: 'a second run costs money: jobs of unknown outcome are held' },
  lease: { type: 'string', value: 'TIME', help: 'it counts as dead after this silence; by default 15s' },
  grace: {
    type: 'string',
    value: 'TIME',
    help: 'how long running jobs may go on after a stop; by default 30s',
  },
  cwd: {
    type: 'string',
    value: 'DIR',
    help: 'the folder that commands run in; by default an empty one for each',
  },
  redis: {
    type: 'string',
    value: 'URL',
    help: 'where it hears of jobs without asking; by default ORCHD_REDIS_URL; needs the package redis',
  },
  url: SERVER_OPTIONS.url,
  token: SERVER_OPTIONS.token,
} as const;

export const consume: Command = {
  usage: usageOf({
    call: 'consume --pool POOL --type TYPE [OPTIONS] -- COMMAND [ARGUMENTS]',
    about: `Asks the server for jobs and runs a command for each: the payload is on its standard input, and what it prints is the
answer (docs/consumers.md). Commands go on when \`orchd consume\` is killed: the next one with the same --state delivers
what they have done. The token needs the role consumer. The log goes to standard output.
Exit code: 0 stopped by a signal, or drained by an operator, 2 could not start, 130 stopped by a second Ctrl-C.`,
    options,
    examples: [
      'orchd consume --pool media --type transcribe --slots 2 -- ./transcribe.sh',
      'orchd consume --pool gpu --type embed --type rerank --state state -- python3 run.py',
    ],
  }),
  options,
  async run(args, terminal) {
    const interrupt = new Interrupt();
    const logger = daemonLogger();
    const { Consume } = await import('../../daemons/consumer/consume.ts');
    const consumer = new Consume({
      ...optionsOf(args),
      env: realEnv(),
      onProblem: (message) => logger.warn(message),
    });
    const stopped = interrupt.received.then(() => {
      terminal.complain('\nstopping; running jobs may end first; press Ctrl-C again to end it at once');
      return consumer.stop();
    });
    await consumer.start().catch((error: unknown) => {
      ended(EXIT.unusable);
      throw error;
    });
    if (!interrupt.signal.aborted) terminal.complain('orchd consume: at work; press Ctrl-C to stop');
    await Promise.race([stopped, consumer.over]);
    await consumer.stop();
    return ended(EXIT.ok);
  },
};

function optionsOf(args: CliArguments): Omit<ConsumeOptions, 'env' | 'onProblem'> {
  const { values, positionals } = args;
  const pool = textOf(values, 'pool');
  const types = listOf(values, 'type');
  if (pool === undefined) throw new UsageError('the pool is missing: --pool POOL.');
  if (types.length === 0) throw new UsageError('the type of the jobs is missing: --type TYPE.');
  if (positionals.length === 0) throw new UsageError('the command is missing; it stands after --.');
  const url = serverUrl(args);
  if (!isHttpUrl(url)) throw new UsageError(`"${url}" is not an address such as http://127.0.0.1:8080.`);
  const name = textOf(values, 'name');
  const models = listOf(values, 'model');
  const leaseMs = durationOf(values, 'lease');
  const gpuMemory = wholeOf(values, 'gpu-memory', 1, MAX_GPU_MEMORY_MB);
  const gpuPool = textOf(values, 'gpu-pool');
  const [program = '', ...rest] = positionals;
  return {
    address: { url, token: textOf(values, 'token')?.trim() ?? variable('ORCHD_TOKEN') },
    folder: resolve(textOf(values, 'state') ?? `orchd-consume-${pool}`),
    // A command runs in a folder of its own: `./program` is meant from here.
    argv: [program.includes('/') ? resolve(program) : program, ...rest],
    redisUrl: textOf(values, 'redis') ?? variable('ORCHD_REDIS_URL'),
    cwd: textOf(values, 'cwd'),
    graceMs: durationOf(values, 'grace') ?? DEFAULTS.graceMs,
    declared: {
      pool,
      types: [...types],
      slots: wholeOf(values, 'slots', 1, MAX_SLOTS) ?? DEFAULTS.slots,
      ...(name !== undefined && { name }),
      ...(models.length > 0 && { models: [...models] }),
      ...(values['paid'] === true && { paid: true }),
      ...(leaseMs !== undefined && { lease_ttl_ms: leaseMs }),
      ...(gpuMemory !== undefined && { gpu_memory_mb: gpuMemory }),
      ...(gpuPool !== undefined && { gpu_pool: gpuPool }),
    },
  };
}
