/** The commands of `orchd spool` that run until they are stopped. */
import { resolve } from 'node:path';
import type { BrainJobs } from '../../daemons/spool/brain-jobs.ts';
import type { CommandRuns } from '../../daemons/spool/command-runs.ts';
import type { JobHandler } from '../../daemons/spool/handler.ts';
import type { Env } from '../../kit/env/env.ts';
import { LOG_LEVELS, type Logger, type LogLevel } from '../../kit/logger.ts';
import type { Service } from '../../kit/service.ts';
import type { AbandonedRuns } from '../../spool/repair.ts';
import type { Spool } from '../../spool/spool.ts';
import { durationOf, noPositionals, oneOf, textOf, variable, wholeOf } from '../arguments.ts';
import { type CliArguments, EXIT, type Terminal, UsageError } from '../command.ts';
import { daemonLogger, ended } from '../daemon.ts';
import { Interrupt } from '../interrupt.ts';
import { connectTo } from '../remote.ts';
import { spoolOptions } from './open.ts';
import type { SpoolAction } from './people.ts';

const DEFAULTS = { slots: 4, sweepMs: 5000, retryMs: 1000, graceMs: 30_000 } as const;
/** A brain has a queue of its own, and what it runs goes on without the agent. */
const BRAIN_DEFAULTS = { slots: 64, graceMs: 0 } as const;
const BACKOFF = { baseDelayMs: 5000, maxDelayMs: 10 * 60_000, jitter: 0.3 } as const;

type Part = 'agent' | 'watchdog' | 'manager';

/** Started in this order, stopped in reverse: nobody claims a job before it would be repaired. */
const ALL: readonly Part[] = ['watchdog', 'manager', 'agent'];

const runs =
  (parts: readonly Part[]): SpoolAction =>
  async (folder, rest, args, terminal) => {
    checkWork(parts, rest, args);
    const interrupt = new Interrupt();
    const logger = daemonLogger(levelOf());
    const site = await openSite(folder, args, logger);
    const { ServiceList } = await import('../../kit/service-list.ts');
    const services = await Promise.all(parts.map((part) => serviceOf(part, site, rest, args)));
    const all = new ServiceList(services);
    // A stop in the middle of the start reaches the part that is starting, and no further one is started.
    const stopped = interrupt.received.then(() => stop(all, terminal));
    await all.start().catch((error: unknown) => {
      ended(EXIT.unusable);
      throw error;
    });
    if (!interrupt.signal.aborted)
      terminal.complain(
        `orchd spool: ${parts.join(', ')} at work in ${site.spool.paths.root}; press Ctrl-C to stop`,
      );
    return ended(await stopped);
  };

/** An agent either runs a command or hands its jobs to a brain; a watchdog may have kills for the same brain. */
function checkWork(parts: readonly Part[], argv: readonly string[], args: CliArguments): void {
  const brain = textOf(args.values, 'brain');
  if (brain !== undefined) checkBrain(brain, parts, argv, args);
  else if (textOf(args.values, 'token') !== undefined) throw new UsageError('--token is only for --brain.');
  else if (!parts.includes('agent')) noPositionals(argv);
  else if (argv.length === 0)
    throw new UsageError('say what runs the jobs: a command after --, or a brain with --brain URL.');
}

function checkBrain(url: string, parts: readonly Part[], argv: readonly string[], args: CliArguments): void {
  if (parts.every((part) => part === 'manager'))
    throw new UsageError('a manager asks nobody: --brain is for agent, watchdog and up.');
  if (argv.length > 0)
    throw new UsageError('jobs go to a brain (--brain) or to a command (after --), not to both.');
  if (textOf(args.values, 'cwd') !== undefined) throw new UsageError('--cwd is only for a command.');
  connectTo(url, args);
}

export const agent = runs(['agent']);
export const watchdog = runs(['watchdog']);
export const manager = runs(['manager']);
export const up = runs(ALL);

interface Site {
  readonly env: Env;
  readonly spool: Spool;
  readonly spoolId: string;
}

async function openSite(folder: string, { values }: CliArguments, logger: Logger): Promise<Site> {
  const { openSpool, spoolId } = await import('../../spool/spool.ts');
  const foreignLockTtlMs = durationOf(values, 'foreign-lock-ttl');
  const settleMs = durationOf(values, 'settle');
  const settings = {
    ...(foreignLockTtlMs !== undefined && { foreignLockTtlMs }),
    ...(settleMs !== undefined && { settleMs }),
  };
  const options = await spoolOptions(folder, logger, settings);
  const spool = await openSpool(options);
  return { env: options.env, spool, spoolId: await spoolId(spool) };
}

async function serviceOf(
  part: Part,
  site: Site,
  argv: readonly string[],
  args: CliArguments,
): Promise<Service> {
  const { env, spool } = site;
  const { values } = args;
  if (part === 'watchdog') {
    const { SpoolWatchdog } = await import('../../daemons/spool/watchdog.ts');
    return new SpoolWatchdog({
      env,
      spool,
      runs: await abandonedRuns(site, args),
      intervalMs: durationOf(values, 'interval') ?? DEFAULTS.sweepMs,
    });
  }
  if (part === 'manager') {
    const { SpoolManager } = await import('../../daemons/spool/manager.ts');
    const baseDelayMs = durationOf(values, 'retry-delay') ?? BACKOFF.baseDelayMs;
    return new SpoolManager({
      env,
      spool,
      intervalMs: durationOf(values, 'interval') ?? DEFAULTS.retryMs,
      backoff: { ...BACKOFF, baseDelayMs, maxDelayMs: Math.max(baseDelayMs, BACKOFF.maxDelayMs) },
    });
  }
  const { SpoolAgent } = await import('../../daemons/spool/agent.ts');
  const defaults = textOf(values, 'brain') === undefined ? DEFAULTS : BRAIN_DEFAULTS;
  return new SpoolAgent({
    env,
    spool,
    handler: await handlerOf(site, argv, args),
    name: textOf(values, 'name'),
    slots: wholeOf(values, 'slots', 1, 10_000) ?? defaults.slots,
    timeoutMs: durationOf(values, 'timeout'),
    stopGraceMs: durationOf(values, 'grace') ?? defaults.graceMs,
  });
}

async function commandRuns(site: Site): Promise<CommandRuns> {
  const { CommandRuns } = await import('../../daemons/spool/command-runs.ts');
  return new CommandRuns(site);
}

/** A spool may have had agents of both kinds: commands are waited for beside a brain too. */
async function abandonedRuns(site: Site, args: CliArguments): Promise<AbandonedRuns> {
  const [commands, brain] = [await commandRuns(site), await brainJobs(site, args)];
  return {
    async look(watchdog, folder, attempt) {
      const atBrain = await brain?.look(watchdog, folder);
      return atBrain?.is === 'running' ? atBrain : commands.look(watchdog, folder, attempt);
    },
  };
}

/** Undefined where the command line names no brain. */
async function brainJobs(site: Site, args: CliArguments): Promise<BrainJobs | undefined> {
  const url = textOf(args.values, 'brain');
  if (url === undefined) return undefined;
  const { BrainJobs } = await import('../../daemons/spool/brain-jobs.ts');
  const { brainOf } = await import('./brain.ts');
  return new BrainJobs({ ...site, brain: brainOf(connectTo(url, args)) });
}

async function handlerOf(site: Site, argv: readonly string[], args: CliArguments): Promise<JobHandler> {
  const jobs = await brainJobs(site, args);
  if (jobs) return jobs.handler;
  const cwd = textOf(args.values, 'cwd');
  return (await commandRuns(site)).handler({ argv: cwd === undefined ? fromHere(argv) : argv, cwd });
}

/** A command without a working directory of its own is run in another one: `./program` is meant from here. */
function fromHere([program = '', ...rest]: readonly string[]): string[] {
  return [program.includes('/') ? resolve(program) : program, ...rest];
}

async function stop(all: Service, terminal: Terminal): Promise<number> {
  terminal.complain('\nstopping; running jobs may end first; press Ctrl-C again to end it at once');
  await all.stop();
  return EXIT.ok;
}

function levelOf(): LogLevel | undefined {
  const level = variable('ORCHD_LOG_LEVEL');
  return level === undefined ? undefined : oneOf(level, 'ORCHD_LOG_LEVEL', LOG_LEVELS);
}
