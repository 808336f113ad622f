/** The daemons of a spool, each from its start to its stop with something to do in between. */
import fs from 'node:fs';
import { join } from 'node:path';
import { SpoolAgent } from '../../../src/daemons/spool/agent.ts';
import type { JobHandler } from '../../../src/daemons/spool/handler.ts';
import { SpoolManager } from '../../../src/daemons/spool/manager.ts';
import { SpoolWatchdog } from '../../../src/daemons/spool/watchdog.ts';
import type { Service } from '../../../src/kit/service.ts';
import type { SteadyEnv } from '../steady-env.ts';
import type { MachineProcess } from './machine.ts';
import {
  claimAndDie,
  drop,
  dropWith,
  finishAndDie,
  JOB,
  lockAndDie,
  renameAndDie,
  runTo,
  type Scenario,
  sweep,
} from './scenarios.ts';

export interface DaemonScenario extends Omit<Scenario, 'work'> {
  readonly daemon: (env: SteadyEnv, process: MachineProcess, handler: JobHandler) => Service;
  readonly handler?: 'fails' | 'waits';
}

const POLL_MS = 50;
const INTERVAL_MS = 100;

const agent: DaemonScenario['daemon'] = (env, { spool }, handler) =>
  new SpoolAgent({ env, spool, handler, slots: 2, stopGraceMs: 0 });
const watchdog: DaemonScenario['daemon'] = (env, { spool }) =>
  new SpoolWatchdog({ env, spool, intervalMs: INTERVAL_MS });
const manager: DaemonScenario['daemon'] = (env, { spool }) =>
  new SpoolManager({
    env,
    spool,
    intervalMs: INTERVAL_MS,
    backoff: { baseDelayMs: 1, maxDelayMs: 1, jitter: 0 },
  });

const stale = [drop, claimAndDie, sweep];

export const DAEMONS: readonly DaemonScenario[] = [
  { name: 'agent: a job succeeds', endsIn: 'succeeded', prepare: [drop], daemon: agent },
  { name: 'agent: a job fails', endsIn: 'failed', prepare: [drop], daemon: agent, handler: 'fails' },
  {
    name: 'agent: stopped with a job',
    endsIn: 'incoming',
    prepare: [drop],
    daemon: agent,
    handler: 'waits',
  },
  { name: 'watchdog: a dead lock', endsIn: 'incoming', prepare: [drop, lockAndDie], daemon: watchdog },
  {
    name: 'watchdog: a job that was only moved',
    endsIn: 'stale',
    prepare: [drop, renameAndDie],
    daemon: watchdog,
  },
  { name: 'watchdog: a job that was begun', endsIn: 'stale', prepare: [drop, claimAndDie], daemon: watchdog },
  {
    name: 'watchdog: a job that has a result',
    endsIn: 'succeeded',
    prepare: [drop, finishAndDie],
    daemon: watchdog,
  },
  { name: 'manager: a stale job', endsIn: 'incoming', prepare: stale, daemon: manager },
  { name: 'manager: a failed job', endsIn: 'incoming', prepare: [drop, runTo('failed')], daemon: manager },
  {
    name: 'manager: a job without retries',
    endsIn: 'killed',
    prepare: [dropWith({ max_retries: 0 }), claimAndDie, sweep],
    daemon: manager,
  },
];

/** Starts the daemon, waits until the job lies where it should and has no lock, and stops it. */
export async function runDaemon(
  { daemon, handler, endsIn }: DaemonScenario,
  env: SteadyEnv,
  process: MachineProcess,
): Promise<void> {
  const { paths } = process.spool;
  const begun = Promise.withResolvers<void>();
  const service = daemon(env, process, async ({ name, signal }) => {
    process.world.ledger.begin(name, process.identity.pid);
    begun.resolve();
    if (handler === 'waits')
      await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
    return handler === undefined ? { ok: true, result: { of: name } } : { ok: false, reason: 'no luck' };
  });
  await service.start();
  const place = join(paths.places[endsIn], JOB);
  const lock = join(paths.places.incoming, `${JOB}.lock`);
  const isDone = (): boolean => fs.existsSync(place) && !fs.existsSync(lock);
  if (handler === 'waits') await begun.promise;
  else while (!isDone()) await env.sleep(POLL_MS);
  await service.stop();
}
