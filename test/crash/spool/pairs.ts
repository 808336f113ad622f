/** Two processes that work on one job at the same time. */
import { join } from 'node:path';
import { Actor, type ActorKind } from '../../../src/spool/actor.ts';
import { jobFiles, lockPath } from '../../../src/spool/layout.ts';
import { loadJob } from '../../../src/spool/load.ts';
import { Heartbeats } from '../../../src/spool/owner.ts';
import { removeTree, writeNew } from '../../../src/spool/plain-files.ts';
import { sweepSpool } from '../../../src/spool/repair.ts';
import { killWaiting, orderKill, requeueByOrder, retryJob } from '../../../src/spool/retry.ts';
import { submitJob } from '../../../src/spool/submit.ts';
import { PATHS, TTL_MS, type Work } from './machine.ts';
import { agentRunsAs } from './recovery.ts';
import { claimAndDie, drop, finishAndDie, JOB, lockAndDie, renameAndDie, runTo, sweep } from './scenarios.ts';
import type { SimProcess, SpoolWorld } from './world.ts';

/** What one of the two does. Its actors are opened before, and are there at the end. */
export type Side = (world: SpoolWorld) => Promise<{ readonly process: SimProcess; readonly work: Work }>;

export interface Pair {
  readonly name: string;
  readonly prepare: readonly Work[];
  readonly one: Side;
  readonly other: Side;
  /** There is no job before. */
  readonly isNew?: true;
  /** A second folder with the name of the job is left, which nobody runs. */
  readonly leavesTwin?: true;
}

const side =
  (kind: ActorKind, work: (actor: Actor, process: SimProcess) => Promise<unknown>, isForeign = false): Side =>
  async (world) => {
    const process = world.process({ isForeign });
    let actor: Actor | undefined;
    await process.run(async ({ spool }) => {
      actor = await Actor.open(spool, kind);
    });
    return { process, work: () => work(actor as Actor, process) };
  };

const runs = (to: 'succeeded' | 'failed' = 'succeeded'): Side =>
  side('agent', (agent, process) => agentRunsAs(agent, process, JOB, to));

/** Gets the job, and has it until the end. */
const claims: Side = side('agent', async (agent, process) => {
  if ((await loadJob(agent, JOB)).is === 'loaded') process.world.ledger.begin(JOB, process.identity.pid);
});

const sweeps: Side = side('watchdog', (watchdog, { world }) =>
  sweepSpool(watchdog, new Heartbeats(() => world.now)),
);
const retries = (place: 'stale' | 'failed'): Side =>
  side('manager', (manager) => retryJob(manager, place, JOB));
const kills = (place: 'incoming' | 'stale' | 'failed'): Side =>
  side('person', (person) => killWaiting(person, place, JOB, 'by order'));
const requeues = (place: 'stale' | 'failed' | 'killed'): Side =>
  side('person', (person) => requeueByOrder(person, place, JOB));
const submits: Side = side('person', (person) =>
  submitJob(person, { name: JOB, prompt: {} }).catch((error: { code?: string }) => {
    if (error.code !== 'JOB_CONFLICT') throw error;
  }),
);

const ordersKill: Side = side('person', async (person, { world }) => {
  const path = [...world.tree.walk()].find((each) => each.path.endsWith(`/${JOB}`))?.path ?? '';
  await orderKill(person, path.split('/').at(-2) ?? '', JOB);
});

/** Breaks the dead lock as another watchdog, and locks and claims the job as an agent. */
const sweepsAndClaims: Side = async (world) => {
  const { process, work: claim } = await claims(world);
  let watchdog: Actor | undefined;
  await process.run(async ({ spool }) => {
    watchdog = await Actor.open(spool, 'watchdog');
  });
  const work: Work = async (each) => {
    await sweepSpool(watchdog as Actor, new Heartbeats(() => world.now));
    await claim(each);
  };
  return { process, work };
};

/** As everybody else goes on when a process that cannot be asked for has been silent for too long. */
const takesForDead: Side = side('watchdog', async (watchdog, process) => {
  const { world } = process;
  const heartbeats = new Heartbeats(() => world.now);
  await sweepSpool(watchdog, heartbeats);
  world.now += TTL_MS + 1;
  await sweepSpool(watchdog, heartbeats);
  await retryJob(watchdog, 'stale', JOB);
  const agent = await Actor.open(process.spool, 'agent');
  await agentRunsAs(agent, process, JOB);
});

/** Drops another folder with the same name, and tries to run it. */
const dropsTwin: Side = async (world) => {
  const { process, work: run } = await runs()(world);
  let person: Actor | undefined;
  await process.run(async ({ spool }) => {
    person = await Actor.open(spool, 'person');
  });
  const work: Work = async (each) => {
    const isDropped = await submitJob(person as Actor, { name: JOB, prompt: {} }).then(
      () => true,
      () => false,
    );
    if (isDropped) await run(each);
  };
  return { process, work };
};

/** An agent that knows nothing but the original protocol: a bare `mkdir`, a pid, and the moves. */
const bareAgent: Side = async (world) => {
  const process = world.process({ isForeign: true });
  const { disk } = process.spool.env;
  const own = join(PATHS.places['in-progress'], 'bare');
  await process.run(() => disk.makeNewFolder(own));
  const [lock, folder] = [lockPath(PATHS, JOB), join(own, JOB)];
  const files = jobFiles(folder);
  const statusText = (status: string): string =>
    JSON.stringify({ status, 'schema-version': '1.0.0', retry_count: 0 });
  const work = async (): Promise<void> => {
    try {
      await disk.makeNewFolder(lock);
    } catch {
      return;
    }
    try {
      await writeNew(disk, join(lock, 'pid'), '4711\n', { isSynced: false });
      await disk.rename(join(PATHS.places.incoming, JOB), folder);
    } catch {
      return removeTree(disk, lock);
    }
    await writeNew(disk, files.job, statusText('in-progress'), { isSynced: true });
    world.ledger.begin(JOB, process.identity.pid);
    await writeNew(disk, files.temporaryResult, '{}', { isSynced: true });
    await disk.rename(files.temporaryResult, files.result);
    await writeNew(disk, files.temporaryJob, statusText('succeeded'), { isSynced: true });
    await disk.rename(files.temporaryJob, files.job);
    await disk.rename(folder, join(PATHS.places.succeeded, JOB));
    await removeTree(disk, lock);
  };
  return { process, work };
};

const foreign = (kind: ActorKind, work: (actor: Actor, process: SimProcess) => Promise<unknown>): Side =>
  side(kind, work, true);

const stale: readonly Work[] = [drop, claimAndDie, sweep];

export const PAIRS: readonly Pair[] = [
  { name: 'two agents', prepare: [drop], one: runs(), other: runs() },
  { name: 'two agents, one of which fails', prepare: [drop], one: runs('failed'), other: runs() },
  { name: 'an agent and a bare one', prepare: [drop], one: runs(), other: bareAgent },
  { name: 'an agent and a kill of the waiting job', prepare: [drop], one: runs(), other: kills('incoming') },
  { name: 'an agent and a kill of the running job', prepare: [drop], one: runs(), other: ordersKill },
  { name: 'an agent and a watchdog', prepare: [drop], one: runs(), other: sweeps },
  {
    name: 'an agent and a watchdog, after a dead agent',
    prepare: [drop, claimAndDie],
    one: runs(),
    other: sweeps,
  },
  { name: 'an agent and a watchdog at a dead lock', prepare: [drop, lockAndDie], one: claims, other: sweeps },
  {
    name: 'a watchdog, and another with an agent, at a dead lock',
    prepare: [drop, lockAndDie],
    one: sweeps,
    other: sweepsAndClaims,
  },
  { name: 'two watchdogs at a dead lock', prepare: [drop, lockAndDie], one: sweeps, other: sweeps },
  {
    name: 'two watchdogs at a job that was only moved',
    prepare: [drop, renameAndDie],
    one: sweeps,
    other: sweeps,
  },
  { name: 'two watchdogs at a job that was begun', prepare: [drop, claimAndDie], one: sweeps, other: sweeps },
  { name: 'two watchdogs at a job with a result', prepare: [drop, finishAndDie], one: sweeps, other: sweeps },
  { name: 'a watchdog and a manager', prepare: [drop, claimAndDie], one: sweeps, other: retries('stale') },
  { name: 'two managers at a stale job', prepare: stale, one: retries('stale'), other: retries('stale') },
  {
    name: 'two managers at a failed job',
    prepare: [drop, runTo('failed')],
    one: retries('failed'),
    other: retries('failed'),
  },
  { name: 'a manager and an agent', prepare: stale, one: retries('stale'), other: runs() },
  { name: 'a manager and a kill', prepare: stale, one: retries('stale'), other: kills('stale') },
  {
    name: 'a manager and a requeue by order',
    prepare: stale,
    one: retries('stale'),
    other: requeues('stale'),
  },
  {
    name: 'two requeues of a killed job',
    prepare: [drop, runTo('killed')],
    one: requeues('killed'),
    other: requeues('killed'),
  },
  {
    name: 'an agent and a second job of the same name',
    prepare: [drop],
    one: runs(),
    other: dropsTwin,
    leavesTwin: true,
  },
  { name: 'two drops of one name', prepare: [], one: submits, other: submits, isNew: true },
  {
    name: 'an agent that is taken for dead, and those who go on',
    prepare: [drop],
    one: foreign('agent', (agent, process) => agentRunsAs(agent, process, JOB)),
    other: takesForDead,
  },
  {
    name: 'a watchdog that is taken for dead, and those who go on',
    prepare: [drop, claimAndDie],
    one: foreign('watchdog', (watchdog, { world }) => sweepSpool(watchdog, new Heartbeats(() => world.now))),
    other: takesForDead,
  },
  {
    name: 'a manager that is taken for dead, and those who go on',
    prepare: stale,
    one: foreign('manager', (manager) => retryJob(manager, 'stale', JOB)),
    other: takesForDead,
  },
];
