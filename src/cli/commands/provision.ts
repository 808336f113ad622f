/** `orchd provision [--pool P …] -- COMMAND`: keeps the processes of worker pools running. */
import { resolve } from 'node:path';
import { isHttpUrl } from '../../config/address.ts';
import type { ProvisionOptions } from '../../daemons/provision/provision.ts';
import { realEnv } from '../../kit/env/real.ts';
import { durationOf, flagOf, listOf, textOf, variable, wholeOf } from '../arguments.ts';
import { type CliArguments, type Command, EXIT, UsageError } from '../command.ts';
import { daemonLogger, ended } from '../daemon.ts';
import { Interrupt } from '../interrupt.ts';
import { SERVER_OPTIONS, usageOf } from '../options.ts';
import { serverUrl } from '../remote.ts';

const DEFAULTS = { max: 100, intervalMs: 2000, state: 'orchd-provision' } as const;
const MAX_PROCESSES = 10_000;

const options = {
  pool: {
    type: 'string',
    value: 'POOL',
    multiple: true,
    help: 'a worker pool to carry out; by default all with the provisioner "external"',
  },
  state: {
    type: 'string',
    value: 'DIR',
    help: 'the folder of what it has started; by default orchd-provision',
  },
  max: {
    type: 'string',
    value: 'N',
    help: 'so many processes of one worker pool at most, whatever it wishes; by default 100',
  },
  grace: {
    type: 'string',
    value: 'TIME',
    help: 'how long a process may take to finish after SIGTERM; by default as long as it takes',
  },
  interval: { type: 'string', value: 'TIME', help: 'how often the server is asked; by default 2s' },
  env: {
    type: 'string',
    value: 'NAME',
    multiple: true,
    help: 'a variable of this environment that the command gets too',
  },
  'end-workers': {
    type: 'boolean',
    help: 'stop the processes, too, when the provisioner stops; by default they keep running',
  },
  redis: {
    type: 'string',
    value: 'URL',
    help: 'where it hears of changes without asking; by default ORCHD_REDIS_URL; needs the package redis',
  },
  url: SERVER_OPTIONS.url,
  token: SERVER_OPTIONS.token,
} as const;

export const provision: Command = {
  usage: usageOf({
    call: 'provision [--pool POOL …] [OPTIONS] -- COMMAND [ARGUMENTS]',
    about: `Keeps as many processes of a command running as each worker pool with the provisioner "external" wishes, and tells the
server how many run (docs/worker-pools.md). The command gets ORCHD_POOL, ORCHD_CONSUMER, ORCHD_URL and ORCHD_TOKEN, and
\`orchd consume\` takes its pool, name and folder from there. Processes go on when \`orchd provision\` is killed: the next
one with the same --state takes them over. The token needs the role consumer. The log goes to standard output.
Exit code: 0 stopped by a signal, 2 could not start, 130 stopped by a second Ctrl-C.`,
    options,
    examples: [
      'orchd provision --pool gpu -- orchd consume --type embed -- python3 run.py',
      'orchd provision --max 8 --grace 10m -- ./consumer.py',
    ],
  }),
  options,
  async run(args, terminal) {
    const chosen = optionsOf(args);
    const interrupt = new Interrupt();
    const logger = daemonLogger();
    const { Provision } = await import('../../daemons/provision/provision.ts');
    const provisioner = new Provision({ ...chosen, env: realEnv(), logger });
    const stopped = interrupt.received.then(() => {
      terminal.complain('\nstopping; press Ctrl-C again to end it at once');
      return provisioner.stop();
    });
    await provisioner.start().catch((error: unknown) => {
      ended(EXIT.unusable);
      throw error;
    });
    if (!interrupt.signal.aborted) terminal.complain('orchd provision: at work; press Ctrl-C to stop');
    await stopped;
    const left = provisioner.count;
    if (left > 0)
      terminal.complain(
        `${left} processes keep running; the next \`orchd provision\` with this folder takes them over`,
      );
    return ended(EXIT.ok);
  },
};

function optionsOf(args: CliArguments): Omit<ProvisionOptions, 'env' | 'logger'> {
  const { values, positionals } = args;
  if (positionals.length === 0) throw new UsageError('the command is missing; it stands after --.');
  const url = serverUrl(args);
  if (!isHttpUrl(url)) throw new UsageError(`"${url}" is not an address such as http://127.0.0.1:8080.`);
  const pools = listOf(values, 'pool');
  const redisUrl = textOf(values, 'redis') ?? variable('ORCHD_REDIS_URL');
  return {
    address: { url, token: textOf(values, 'token')?.trim() ?? variable('ORCHD_TOKEN') },
    folder: resolve(textOf(values, 'state') ?? DEFAULTS.state),
    pools: pools.length > 0 ? pools : undefined,
    command: { argv: positionals, cwd: process.cwd(), passed: listOf(values, 'env'), redisUrl },
    max: wholeOf(values, 'max', 1, MAX_PROCESSES) ?? DEFAULTS.max,
    graceMs: durationOf(values, 'grace'),
    intervalMs: durationOf(values, 'interval') ?? DEFAULTS.intervalMs,
    redisUrl,
    endsWorkers: flagOf(values, 'end-workers'),
  };
}
