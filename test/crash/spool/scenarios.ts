/** The transactions of a spool, each with the world that it begins in. */
import { join, relative } from 'node:path';
import { Actor } from '../../../src/spool/actor.ts';
import { saveResult } from '../../../src/spool/commit.ts';
import { writeResult } from '../../../src/spool/job-folder.ts';
import type { Place } from '../../../src/spool/layout.ts';
import { loadJob, returnJob } from '../../../src/spool/load.ts';
import { acquireLock, releaseLock } from '../../../src/spool/lock.ts';
import { killWaiting, orderKill, requeueByOrder, retryJob } from '../../../src/spool/retry.ts';
import { submitJob } from '../../../src/spool/submit.ts';
import { type MachineProcess, ROOT, type Work } from './machine.ts';
import { agentRuns, watchdogSweeps } from './recovery.ts';

export const JOB = 'p5-20260101T000000000-job';

export interface Scenario {
  readonly name: string;
  readonly prepare: readonly Work[];
  readonly work: Work;
  /** Where the job lies when the work is done: from then on a power cut changes nothing of it. */
  readonly endsIn: Place;
  /** The job is not the spool's until the work is done. */
  readonly isNew?: true;
}

const as =
  (
    kind: 'agent' | 'watchdog' | 'manager' | 'person',
    run: (actor: Actor, process: MachineProcess) => Promise<unknown>,
  ): Work =>
  async (process) => {
    const actor = await Actor.open(process.spool, kind);
    await run(actor, process);
    await actor.close();
  };

export const drop: Work = as('person', (actor) => submitJob(actor, { name: JOB, prompt: { ask: 'x' } }));
export const dropWith = (lifecycle: object): Work =>
  as('person', (actor) => submitJob(actor, { name: JOB, prompt: { ask: 'x' }, lifecycle }));

/** An agent that gets the job and dies before it does anything with it. */
export const claimAndDie: Work = async (process) => {
  const agent = await Actor.open(process.spool, 'agent');
  await loadJob(agent, JOB);
  process.world.ledger.begin(JOB, process.identity.pid);
  process.kill();
};

export const finishAndDie: Work = async (process) => {
  const agent = await Actor.open(process.spool, 'agent');
  const outcome = await loadJob(agent, JOB);
  if (outcome.is !== 'loaded') return;
  process.world.ledger.begin(JOB, process.identity.pid);
  await saveResult(agent, outcome.envelope, 'done');
  process.kill();
};

/** Dies right after the rename that gives it the job: `job.json` says queued. */
export const renameAndDie: Work = async (process) => {
  const agent = await Actor.open(process.spool, 'agent');
  await process.spool.env.disk.rename(join(process.spool.paths.places.incoming, JOB), join(agent.jobs, JOB));
  process.kill();
};

export const lockAndDie: Work = async (process) => {
  const agent = await Actor.open(process.spool, 'agent');
  await acquireLock(agent, JOB);
  process.kill();
};

export const runTo =
  (to: 'succeeded' | 'failed' | 'killed'): Work =>
  (process) =>
    agentRuns(process, JOB, to);
export const sweep: Work = (process) => watchdogSweeps(process);
export const retry = (place: 'stale' | 'failed'): Work =>
  as('manager', (actor) => retryJob(actor, place, JOB));
export const killIn = (place: 'incoming' | 'stale' | 'failed'): Work =>
  as('person', (actor) => killWaiting(actor, place, JOB, 'by order'));
export const requeueFrom = (place: 'stale' | 'failed' | 'killed'): Work =>
  as('person', (actor) => requeueByOrder(actor, place, JOB));

async function claimAndReturn(agent: Actor): Promise<void> {
  const outcome = await loadJob(agent, JOB);
  if (outcome.is !== 'loaded') return;
  await returnJob(agent, JOB);
  await releaseLock(agent, outcome.envelope.runtime.lock);
}

const orderKillOfRunning: Work = as('person', async (actor, { world }) => {
  const path = [...world.tree.walk()].find((each) => each.path.endsWith(`/${JOB}`))?.path ?? '';
  const agent = path.split('/').at(-2) ?? '';
  await orderKill(actor, agent, JOB);
});

const addResult: Work = async ({ world, spool, identity }) => {
  const path = [...world.tree.walk()].find((each) => each.path.endsWith(`/${JOB}`))?.path ?? '';
  const folder = join(spool.paths.root, relative(ROOT, path));
  world.ledger.begin(JOB, identity.pid);
  await writeResult(spool.env.disk, folder, {});
  await spool.env.disk.syncFolder(folder);
};

const stale = [drop, claimAndDie, sweep];

export const SCENARIOS: readonly Scenario[] = [
  { name: 'drop', endsIn: 'incoming', prepare: [], work: drop, isNew: true },
  {
    name: 'drop with a job.json',
    endsIn: 'incoming',
    prepare: [],
    work: dropWith({ max_retries: 1 }),
    isNew: true,
  },
  {
    name: 'an agent starts and stops',
    endsIn: 'incoming',
    prepare: [drop],
    work: as('agent', async () => undefined),
  },
  { name: 'run to success', endsIn: 'succeeded', prepare: [drop], work: runTo('succeeded') },
  { name: 'run to failure', endsIn: 'failed', prepare: [drop], work: runTo('failed') },
  { name: 'run and killed', endsIn: 'killed', prepare: [drop], work: runTo('killed') },
  {
    name: 'run again after a failure',
    endsIn: 'succeeded',
    prepare: [drop, runTo('failed'), retry('failed')],
    work: runTo('succeeded'),
  },
  {
    name: 'claim and return',
    endsIn: 'incoming',
    prepare: [drop],
    work: as('agent', claimAndReturn),
  },
  {
    name: 'claim and return twice, with the folder of one lock',
    endsIn: 'incoming',
    prepare: [drop],
    work: as('agent', async (agent) => {
      await claimAndReturn(agent);
      await claimAndReturn(agent);
    }),
  },
  {
    name: 'claim what has a result',
    endsIn: 'succeeded',
    prepare: [drop, addResult],
    work: runTo('succeeded'),
  },
  { name: 'retry a stale job', endsIn: 'incoming', prepare: stale, work: retry('stale') },
  { name: 'retry a failed job', endsIn: 'incoming', prepare: [drop, runTo('failed')], work: retry('failed') },
  {
    name: 'kill a stale job without retries',
    endsIn: 'killed',
    prepare: [dropWith({ max_retries: 0 }), claimAndDie, sweep],
    work: retry('stale'),
  },
  {
    name: 'kill a failed job without retries',
    endsIn: 'killed',
    prepare: [dropWith({ max_retries: 0 }), runTo('failed')],
    work: retry('failed'),
  },
  {
    name: 'finish a stale job with a result',
    endsIn: 'succeeded',
    prepare: [...stale, addResult],
    work: retry('stale'),
  },
  { name: 'kill a waiting job', endsIn: 'killed', prepare: [drop], work: killIn('incoming') },
  { name: 'kill a stale job by order', endsIn: 'killed', prepare: stale, work: killIn('stale') },
  {
    name: 'order the end of a running job',
    endsIn: 'in-progress',
    prepare: [drop, claimAndDie],
    work: orderKillOfRunning,
  },
  {
    name: 'manager kills what was ordered to end',
    endsIn: 'killed',
    prepare: [drop, claimAndDie, orderKillOfRunning, sweep],
    work: retry('stale'),
  },
  {
    name: 'requeue a killed job by order',
    endsIn: 'incoming',
    prepare: [drop, runTo('killed')],
    work: requeueFrom('killed'),
  },
  { name: 'sweep a dead lock', endsIn: 'incoming', prepare: [drop, lockAndDie], work: sweep },
  { name: 'sweep a job that was only moved', endsIn: 'stale', prepare: [drop, renameAndDie], work: sweep },
  { name: 'sweep a job that was begun', endsIn: 'stale', prepare: [drop, claimAndDie], work: sweep },
  { name: 'sweep a job that has a result', endsIn: 'succeeded', prepare: [drop, finishAndDie], work: sweep },
  { name: 'sweep when nothing is to be done', endsIn: 'incoming', prepare: [drop], work: sweep },
];
