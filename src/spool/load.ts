/**
 * load-job: an agent gets a job.
 *
 *  1  look at the folder in `incoming/`: is it a job that can be run?
 *  2  lock it
 *  3  read `job.json`: is it queued, and of a version that is known?
 *  4  rename the folder to `in-progress/<agent>/`: from here on the job is the agent's
 *  5  sync both parents; write the status `in-progress`
 *
 * A crash before 4 leaves a lock, after it a job whose agent is dead: repair.ts knows both. Nothing is run before 5 is
 * done, so that a power cut cannot bring a job that was begun back to `incoming/`.
 */
import { join } from 'node:path';
import type { EntryStat } from '../kit/env/env.ts';
import type { Actor } from './actor.ts';
import type { Envelope, Lifecycle, ReadLifecycle } from './envelope.ts';
import { changeStatus, hasResult, logChange, readLifecycle } from './job-folder.ts';
import { jobFiles, lockPath, nameProblem, type Place, PUBLIC_PLACES } from './layout.ts';
import { acquireLock, type Lock, releaseLock } from './lock.ts';
import { badFileReason, isMissing, isTaken, readPlainText, unmovableReason } from './plain-files.ts';
import type { Spool } from './spool.ts';

export type LoadOutcome =
  | { readonly is: 'loaded'; readonly envelope: Envelope }
  /** Somebody else is trying it, or has it. */
  | { readonly is: 'locked' }
  /** It is not in `incoming/` any more. */
  | { readonly is: 'gone' }
  /** The job cannot be run as it is, and stays in `incoming/`. */
  | { readonly is: 'refused'; readonly why: string }
  /** `prompt.json` may still be written: the job is looked at again after `waitMs`. */
  | { readonly is: 'unsettled'; readonly waitMs: number }
  /** The agent's own folder is gone: it was taken for dead, and goes on under another id. */
  | { readonly is: 'fenced' };

type Look =
  | { readonly is: 'runnable'; readonly folder: EntryStat; readonly prompt: unknown }
  | Exclude<LoadOutcome, { is: 'loaded' }>;

/** `knownWhy`: why the job was refused the last time, which need not be logged again. */
export async function loadJob(agent: Actor, name: string, knownWhy?: string): Promise<LoadOutcome> {
  const outcome = await tryToLoad(agent, name);
  if (outcome.is === 'refused' && outcome.why !== knownWhy)
    agent.logger.critical('a job in incoming is not run', { job_id: name, reason: outcome.why });
  return outcome;
}

async function tryToLoad(agent: Actor, name: string): Promise<LoadOutcome> {
  const look = await lookAt(agent.spool, name);
  if (look.is !== 'runnable') return look;
  const lock = await acquireLock(agent, name).catch((error: unknown) => {
    if (isMissing(error)) return 'fenced' as const;
    throw error;
  });
  if (lock === 'fenced') return { is: 'fenced' };
  if (!lock) return { is: 'locked' };
  const outcome = await loadLocked(agent, name, lock, look).catch(async (error: unknown) => {
    await releaseLock(agent, lock).catch(() => undefined);
    throw error;
  });
  if (outcome.is !== 'loaded') await releaseLock(agent, lock);
  return outcome;
}

/** Step 1: also for people who want to know why a job is not run. */
export async function lookAt(spool: Spool, name: string): Promise<Look> {
  const { disk } = spool.env;
  const problem = nameProblem(name);
  if (problem !== undefined) return { is: 'refused', why: `its name cannot be used: ${problem}` };
  const path = join(spool.paths.places.incoming, name);
  const folder = await disk.lstat(path);
  if (!folder) return { is: 'gone' };
  if (folder.kind !== 'folder') return { is: 'refused', why: 'it is no folder' };
  const lock = await disk.lstat(lockPath(spool.paths, name));
  if (lock)
    return lock.kind === 'folder' ? { is: 'locked' } : { is: 'refused', why: 'its lock is no folder' };
  const prompt = await readPlainText(disk, jobFiles(path).prompt, spool.settings.maxPromptBytes);
  if (prompt.is === 'bad') return { is: 'refused', why: `prompt.json ${prompt.why}` };
  const waitMs = await unsettledMs(spool, path, name, folder);
  if (waitMs > 0) return { is: 'unsettled', waitMs };
  if (prompt.is === 'absent') return { is: 'refused', why: 'there is no prompt.json' };
  const twin = await twinOf(spool, name);
  if (twin) return { is: 'refused', why: `a job of this name lies in ${twin}` };
  try {
    return { is: 'runnable', folder, prompt: JSON.parse(prompt.text) as unknown };
  } catch {
    return { is: 'refused', why: 'prompt.json is not JSON' };
  }
}

/** The name of a job is its identity: a second one would take the first one's place at its end. */
async function twinOf({ env, paths }: Spool, name: string): Promise<Place | undefined> {
  const others = PUBLIC_PLACES.filter((place) => place !== 'incoming');
  const found = await Promise.all(others.map((place) => env.disk.lstat(join(paths.places[place], name))));
  return others.find((_, at) => found[at] !== undefined);
}

/**
 * How long a folder that may have been made in place has to be left alone; 0 for one that came by a rename. Without a
 * `prompt.json` the age of the folder counts: the file may be about to come.
 */
async function unsettledMs(
  { env, settings: { settleMs } }: Spool,
  path: string,
  name: string,
  folder: EntryStat,
): Promise<number> {
  // A name of ours says that the folder came by a rename; so does a `job.json`.
  if (/^p\d-\d{8}T/.test(name)) return 0;
  const { prompt, job } = jobFiles(path);
  const [stat, hasJob] = [await env.disk.lstat(prompt), await env.disk.lstat(job)];
  if (hasJob) return 0;
  const age = env.clock.now() - (stat ?? folder).modifiedMs;
  // A time far in the future was written under another clock, and says nothing. One slightly in the future is the present:
  // the file system counts in fractions of a millisecond, and the clock does not.
  if (age < -settleMs) return 0;
  return Math.min(settleMs, Math.max(0, settleMs - age));
}

async function loadLocked(
  agent: Actor,
  name: string,
  lock: Lock,
  { folder: looked, prompt }: Extract<Look, { is: 'runnable' }>,
): Promise<LoadOutcome> {
  const { env, paths } = agent.spool;
  const [source, folder] = [join(paths.places.incoming, name), join(agent.jobs, name)];
  const before = refusalOf(await readLifecycle(agent.spool, source));
  if (before) return { is: 'refused', why: before };
  try {
    await env.disk.rename(source, folder);
  } catch (error) {
    if (isTaken(error)) return { is: 'refused', why: 'the agent has another job of this name' };
    if (isMissing(error)) return (await env.disk.lstat(agent.jobs)) ? { is: 'gone' } : { is: 'fenced' };
    const why = unmovableReason(error);
    if (why === undefined) throw error;
    return { is: 'refused', why: `it ${why}` };
  }
  // The same folder may have been run and queued again since it was looked at, and another may have come in its place.
  const read = await readLifecycle(agent.spool, folder);
  const problem = refusalOf(read);
  const isSame = (await env.disk.lstat(folder))?.identity === looked.identity;
  if (problem !== undefined || read.is !== 'read' || !isSame) {
    await env.disk.rename(folder, source);
    return problem === undefined ? { is: 'locked' } : { is: 'refused', why: problem };
  }
  try {
    return await begin(agent, { name, folder, lock }, prompt, read.lifecycle);
  } catch (error) {
    // A full disk, say. What cannot be returned either is still the agent's, which has to call `returnJob` again.
    await returnJob(agent, name).catch(() => undefined);
    const why = badFileReason(error);
    if (why === undefined) throw error;
    return { is: 'refused', why: `a file in it that has to be written ${why}` };
  }
}

/**
 * Brings a job that the agent has and has certainly not begun back to `incoming/`. Needs no space where it can. Does nothing
 * where the agent has no such job.
 */
export async function returnJob(agent: Actor, name: string, reason = 'not begun'): Promise<void> {
  const { env, paths, syncs } = agent.spool;
  const folder = join(agent.jobs, name);
  if (!(await env.disk.lstat(folder))) return;
  const read = await readLifecycle(agent.spool, folder);
  if (read.is !== 'read') return;
  const { status } = read.lifecycle;
  if (status === 'in-progress') {
    await changeStatus(agent, folder, read.lifecycle, { from: status, to: 'queued', changes: { reason } });
    await env.disk.syncFolder(folder);
  } else if (status !== 'queued') return;
  await env.disk.rename(folder, join(paths.places.incoming, name));
  await syncs.sync(agent.jobs, paths.places.incoming);
}

/** Step 5. */
async function begin(
  agent: Actor,
  job: { readonly name: string; readonly folder: string; readonly lock: Lock },
  prompt: unknown,
  before: Lifecycle,
): Promise<LoadOutcome> {
  const { env, paths, syncs } = agent.spool;
  const started = before.token === undefined ? {} : { started_at: env.clock.now() };
  const changes = { agent: agent.id, attempt: before.attempt + 1, reason: undefined, ...started };
  // Before the status is changed: a power cut must not bring the job back to `incoming/` with another status than `queued`.
  await syncs.sync(paths.places.incoming, agent.jobs);
  const lifecycle = await changeStatus(agent, job.folder, before, {
    from: 'queued',
    to: 'in-progress',
    changes,
  });
  const isFinished = await hasResult(env.disk, job.folder);
  // The last look before the job is run: an agent that was stopped in between may have been taken for dead.
  if (!(await env.disk.lstat(job.folder))) return { is: 'fenced' };
  logChange(agent, job.name, lifecycle, 'queued');
  return { is: 'loaded', envelope: { prompt, lifecycle, runtime: { ...job, isFinished } } };
}

/** Why a job with this `job.json` is not to be run. */
export function refusalOf(read: ReadLifecycle): string | undefined {
  if (read.is === 'unreadable') return read.why;
  if (read.is === 'unknown version')
    return `job.json has the schema-version "${read.version}", which is not known`;
  return read.lifecycle.status === 'queued' ? undefined : `job.json says ${read.lifecycle.status}`;
}
