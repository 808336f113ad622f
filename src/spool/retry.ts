/** What a manager, or a person, does with jobs that have failed, are stale or wait: retries, kills. */
import { join } from 'node:path';
import type { Actor } from './actor.ts';
import type { Lifecycle } from './envelope.ts';
import { readLifecycle } from './job-folder.ts';
import { jobFiles, PLACE_FOLDERS, type PublicPlace } from './layout.ts';
import type { Spool } from './spool.ts';
import { putJob, type TakenJob, takeJob } from './take.ts';

/** The `reason` of a job that was killed because of its file `kill`. */
export const KILLED_BY_ORDER = 'killed by order';

/** The places that a manager looks at. */
export const RETRIED_PLACES = ['stale', 'failed'] as const satisfies readonly PublicPlace[];
export type RetriedPlace = (typeof RETRIED_PLACES)[number];

export type RetryDecision =
  | { readonly is: 'requeue' }
  | { readonly is: 'kill'; readonly reason: string }
  /** It was run to its end: its result is there. */
  | { readonly is: 'finish' }
  /** A status that is not that of the place was written by somebody who died before the move. */
  | { readonly is: 'forward' }
  /** A brain decides about it. */
  | { readonly is: 'leave' };

/** What becomes of a job in `jobs/stale` or `completed/failed`. */
export function decideRetry(
  place: RetriedPlace,
  job: Pick<TakenJob, 'lifecycle' | 'hasResult' | 'isKillOrdered'>,
): RetryDecision {
  const { status, retry_count, max_retries, token } = job.lifecycle;
  if (status !== place) return { is: 'forward' };
  if (token !== undefined) return { is: 'leave' };
  if (place === 'stale' && job.hasResult) return { is: 'finish' };
  if (job.isKillOrdered) return { is: 'kill', reason: KILLED_BY_ORDER };
  if (retry_count < max_retries) return { is: 'requeue' };
  return { is: 'kill', reason: `${place} after ${retry_count} retries` };
}

export type RetryOutcome = 'requeued' | 'killed' | 'finished' | 'left' | 'gone';

/** Carries out what decideRetry says. */
export async function retryJob(manager: Actor, place: RetriedPlace, name: string): Promise<RetryOutcome> {
  const path = join(manager.spool.paths.places[place], name);
  if (await isOfBrain(manager.spool, path)) return 'left';
  const taken = await takeJob(manager, path, place, name);
  if (taken.is === 'refused')
    manager.logger.critical('a job is left where it is', {
      job_id: name,
      reason: taken.why,
      from: PLACE_FOLDERS[place],
    });
  if (taken.is !== 'taken') return taken.is === 'gone' ? 'gone' : 'left';
  const { job } = taken;
  const decision = decideRetry(place, job);
  const { retry_count } = job.lifecycle;
  switch (decision.is) {
    case 'requeue':
      return said(await putJob(manager, job, 'queued', { retry_count: retry_count + 1 }), 'requeued');
    case 'kill':
      return said(await putJob(manager, job, 'killed', { reason: decision.reason }), 'killed');
    case 'finish':
      return said(await putJob(manager, job, 'succeeded'), 'finished');
    default:
      return said(
        await putJob(manager, job, job.lifecycle.status as Exclude<Lifecycle['status'], 'in-progress'>),
        'left',
      );
  }
}

const said = (put: 'put' | 'blocked' | 'lost', outcome: RetryOutcome): RetryOutcome =>
  put === 'put' ? outcome : put === 'lost' ? 'gone' : 'left';

/** Whether a brain decides about the job: it may be looking for the folder, which is not moved without need. */
async function isOfBrain(spool: Spool, folder: string): Promise<boolean> {
  const read = await readLifecycle(spool, folder);
  return read.is === 'read' && read.lifecycle.token !== undefined;
}

export type KillOutcome =
  | 'killed'
  /** Its agent has been told to end it. */
  | 'ordered'
  /** It has ended already, or there is no such job. */
  | 'gone';

/** Kills a job that waits, has failed or is stale; wins or loses against whoever claims or retries it at the same time. */
export async function killWaiting(
  actor: Actor,
  place: Extract<PublicPlace, 'incoming' | 'stale' | 'failed'>,
  name: string,
  reason: string,
): Promise<KillOutcome> {
  const path = join(actor.spool.paths.places[place], name);
  const taken = await takeJob(actor, path, place, name);
  if (taken.is !== 'taken') return 'gone';
  return (await putJob(actor, taken.job, 'killed', { reason })) === 'put' ? 'killed' : 'gone';
}

/** Orders the agent of a job to end it. The agent, or a manager after it, kills the job; one that ends first has ended. */
export async function orderKill({ spool }: Actor, agent: string, name: string): Promise<KillOutcome> {
  const { env, paths } = spool;
  const folder = join(paths.places['in-progress'], agent, name);
  try {
    const file = await env.disk.open(jobFiles(folder).kill, 'append');
    await file.close();
  } catch {
    return 'gone';
  }
  return 'ordered';
}

/** Queues a job again by order of a person: its retries start anew. `refused` also for a job of a brain, which decides. */
export async function requeueByOrder(
  actor: Actor,
  place: Extract<PublicPlace, 'stale' | 'failed' | 'killed'>,
  name: string,
): Promise<'requeued' | 'gone' | 'refused'> {
  const path = join(actor.spool.paths.places[place], name);
  if (await isOfBrain(actor.spool, path)) return 'refused';
  const taken = await takeJob(actor, path, place, name);
  if (taken.is !== 'taken') return taken.is;
  const { disk } = actor.spool.env;
  await disk.remove(jobFiles(taken.job.folder).kill);
  const put = await putJob(actor, taken.job, 'queued', { retry_count: 0, reason: 'queued again by order' });
  return put === 'put' ? 'requeued' : 'gone';
}
