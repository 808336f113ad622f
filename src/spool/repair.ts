/**
 * What a watchdog does: finds what dead processes have left, and brings it to where it belongs. Any number of watchdogs may
 * do so at once, and each may die in the middle: all moves are those of take.ts and lock.ts.
 *
 * R1  A job in `incoming/` stays queued; only a dead lock of it goes.
 * R2  A job in `in-progress/` of a dead agent goes to the place of its status if it has ended, to `completed/succeeded`
 *     if it has a result, and to `jobs/stale` otherwise.
 * R3  A job that a dead actor had taken goes on to where it was being brought, or back.
 * R4  The folders of a dead actor are removed when no job is in them.
 * R5  Jobs come before locks, so that a job in progress has its lock for as long as it is in progress.
 * R6  An actor that lives brings on itself what the disk has kept it from putting: nobody else may.
 */
import { join } from 'node:path';
import { type Disk, diskErrorCode } from '../kit/env/env.ts';
import { type Actor, removedIfEmpty, removeWorkspace } from './actor.ts';
import type { Lifecycle } from './envelope.ts';
import { readLifecycle, syncEvents, writeResult } from './job-folder.ts';
import {
  isActorId,
  jobOfLock,
  lockPath,
  nameProblem,
  OWNER_FILE,
  type Place,
  takenFolder,
  WORKSPACE_NAMES,
  workspacePaths,
} from './layout.ts';
import { breakLock } from './lock.ts';
import { Heartbeats, judgeOwner, type OwnerEvidence, readEvidence, type Verdict } from './owner.ts';
import { foldersIn, namesIn } from './plain-files.ts';
import { KILLED_BY_ORDER } from './retry.ts';
import type { SpoolStatus } from './states.ts';
import { putJob, restingStatus, type TakenJob, takeJob } from './take.ts';

/** What a sweep has done. */
export interface SweepReport {
  /** The jobs that were moved, with their new status. */
  readonly jobs: readonly { readonly name: string; readonly to: string }[];
  /** The jobs whose dead lock was removed. */
  readonly locks: readonly string[];
  /** The actors whose folders were removed. */
  readonly actors: readonly string[];
}

/** What has become of the handler of a job whose agent is dead. */
export type RunState =
  /** It had none that could outlive its agent. */
  | { readonly is: 'none' }
  | { readonly is: 'running' }
  | {
      readonly is: 'ended';
      readonly outcome:
        | { readonly ok: true; readonly result: unknown }
        | { readonly ok: false; readonly reason: string; readonly retriable?: boolean | undefined };
    }
  | { readonly is: 'lost'; readonly why: string };

/** Knows handlers that go on when their agent is dead. */
export interface AbandonedRuns {
  look(watchdog: string, folder: string, attempt: number): Promise<RunState>;
}

interface Sweep {
  readonly runs: AbandonedRuns | undefined;
  readonly watchdog: Actor;
  readonly heartbeats: Heartbeats;
  readonly jobs: { readonly name: string; readonly to: string }[];
  readonly locks: string[];
  readonly actors: string[];
}

export async function sweepSpool(
  watchdog: Actor,
  heartbeats: Heartbeats,
  runs?: AbandonedRuns,
): Promise<SweepReport> {
  const sweep: Sweep = { watchdog, heartbeats, runs, jobs: [], locks: [], actors: [] };
  await settleTaken(sweep, watchdog.id);
  await sweepAgents(sweep);
  await sweepWorkspaces(sweep);
  await sweepLocks(sweep);
  heartbeats.forgetOthers();
  return sweep;
}

/** Whether the owner of a folder is dead, by all that is known of it; `key` names the folder. */
function isDead({ watchdog, heartbeats }: Sweep, key: string, evidence: readonly OwnerEvidence[]): boolean {
  const { host, settings } = watchdog.spool;
  const verdicts = evidence.map((each): Verdict => judgeOwner(each, host));
  if (verdicts.includes('alive')) return false;
  if (verdicts.includes('dead')) return true;
  const heartbeatMs = Math.max(...evidence.map((each) => each.heartbeatMs));
  return heartbeats.silentMs(key, heartbeatMs) >= settings.foreignLockTtlMs;
}

const workspaceEvidence = ({ watchdog }: Sweep, actor: string): Promise<OwnerEvidence | undefined> => {
  const { env, paths } = watchdog.spool;
  const { folder, owner } = workspacePaths(paths, actor);
  return readEvidence(env.disk, folder, owner);
};

const lockEvidence = ({ watchdog }: Sweep, job: string): Promise<OwnerEvidence | undefined> => {
  const { env, paths } = watchdog.spool;
  const path = lockPath(paths, job);
  return readEvidence(env.disk, path, join(path, OWNER_FILE));
};

const known = (evidence: readonly (OwnerEvidence | undefined)[]): OwnerEvidence[] =>
  evidence.filter((each) => each !== undefined);

/** R2. */
async function sweepAgents(sweep: Sweep): Promise<void> {
  const { env, paths } = sweep.watchdog.spool;
  for (const agent of await foldersIn(env.disk, paths.places['in-progress']))
    await guarded(sweep, agent, () => sweepAgent(sweep, agent));
}

async function sweepAgent(sweep: Sweep, agent: string): Promise<void> {
  const { env, paths } = sweep.watchdog.spool;
  const folder = join(paths.places['in-progress'], agent);
  const workspace = await workspaceEvidence(sweep, agent);
  if (workspace && !isDead(sweep, `actor ${agent}`, [workspace])) return;
  for (const name of await namesIn(env.disk, folder))
    await guarded(sweep, name, async () => {
      if (await isJobAbandoned(sweep, agent, name, workspace))
        await settleRun(sweep, join(folder, name), name);
    });
  if (workspace || (await isSilentFolder(sweep, folder))) await removedIfEmpty(env.disk, folder);
}

/** Runs one step of a sweep. An entry that cannot be looked at or moved is logged, and the sweep goes on with the next. */
async function guarded({ watchdog }: Sweep, what: string, run: () => Promise<void>): Promise<void> {
  try {
    await run();
  } catch (error) {
    const code = diskErrorCode(error);
    if (code === undefined) throw error;
    watchdog.logger.error('a part of the spool could not be repaired', { job_id: what, error_code: code });
  }
}

/** An agent without a folder in `tmp/` is judged for each of its jobs, by its lock and by what it touches. */
async function isJobAbandoned(
  sweep: Sweep,
  agent: string,
  name: string,
  workspace: OwnerEvidence | undefined,
): Promise<boolean> {
  if (workspace) return true;
  const { env, paths } = sweep.watchdog.spool;
  const folder = join(paths.places['in-progress'], agent);
  const lock = await lockEvidence(sweep, name);
  const touched = await Promise.all(
    [folder, join(folder, name)].map((path) => touchedEvidence(env.disk, path)),
  );
  return isDead(sweep, `job ${agent}/${name}`, known([lock, ...touched]));
}

async function touchedEvidence(disk: Disk, path: string): Promise<OwnerEvidence | undefined> {
  const stat = await disk.lstat(path);
  return stat && { owner: undefined, hasFile: false, heartbeatMs: stat.modifiedMs };
}

async function isSilentFolder(sweep: Sweep, folder: string): Promise<boolean> {
  const evidence = await touchedEvidence(sweep.watchdog.spool.env.disk, folder);
  return evidence !== undefined && isDead(sweep, `folder ${folder}`, [evidence]);
}

/** R3 and R4. */
async function sweepWorkspaces(sweep: Sweep): Promise<void> {
  const { watchdog } = sweep;
  const { env, paths } = watchdog.spool;
  for (const actor of await foldersIn(env.disk, paths.tmp))
    if (actor !== watchdog.id && isActorId(actor))
      await guarded(sweep, actor, () => sweepWorkspace(sweep, actor));
}

async function sweepWorkspace(sweep: Sweep, actor: string): Promise<void> {
  const { spool } = sweep.watchdog;
  const evidence = await workspaceEvidence(sweep, actor);
  if (!evidence || !(await isWorkspace(sweep, actor))) return;
  if (!isDead(sweep, `actor ${actor}`, [evidence])) return;
  await settleTaken(sweep, actor);
  if (await isPresent(sweep, join(spool.paths.places['in-progress'], actor))) return;
  if (await removeWorkspace(spool, actor)) sweep.actors.push(actor);
}

const isPresent = async ({ watchdog }: Sweep, path: string): Promise<boolean> =>
  (await watchdog.spool.env.disk.lstat(path)) !== undefined;

/** Everything else in `tmp/` is being made by a person or a program, and is theirs. The `owner.json` may be gone already. */
async function isWorkspace({ watchdog }: Sweep, actor: string): Promise<boolean> {
  const { env, paths } = watchdog.spool;
  const names = await namesIn(env.disk, workspacePaths(paths, actor).folder);
  return names.every((name) => WORKSPACE_NAMES.has(name));
}

/** R6, for actors that are no watchdogs: to be called while the actor is changing no job. */
export const settleOwn = (actor: Actor): Promise<void> =>
  settleTaken(
    {
      watchdog: actor,
      heartbeats: new Heartbeats(() => 0),
      runs: undefined,
      jobs: [],
      locks: [],
      actors: [],
    },
    actor.id,
  );

async function settleTaken(sweep: Sweep, actor: string): Promise<void> {
  const { env, paths } = sweep.watchdog.spool;
  const workspace = workspacePaths(paths, actor);
  const there = await foldersIn(env.disk, workspace.folder);
  for (const place of Object.keys(paths.places) as Place[]) {
    if (!there.includes(place)) continue;
    const folder = takenFolder(workspace, place);
    for (const name of await namesIn(env.disk, folder))
      await guarded(sweep, name, () => settle(sweep, join(folder, name), place, name));
  }
}

/** A job is left with its dead agent while its handler goes on; then it ends as the handler has. */
async function settleRun(sweep: Sweep, path: string, name: string): Promise<void> {
  const run = await runOf(sweep, path);
  if (run.is === 'running') return;
  await settle(sweep, path, 'in-progress', name, run);
}

async function runOf({ watchdog, runs }: Sweep, path: string): Promise<RunState> {
  const read = runs && (await readLifecycle(watchdog.spool, path));
  if (!runs || read?.is !== 'read' || read.lifecycle.status !== 'in-progress') return { is: 'none' };
  return runs.look(watchdog.id, path, read.lifecycle.attempt);
}

async function settle(
  sweep: Sweep,
  path: string,
  from: Place,
  name: string,
  run: RunState = { is: 'none' },
): Promise<void> {
  const { watchdog } = sweep;
  const taken = await takeJob(watchdog, path, from, name);
  if (taken.is === 'refused')
    watchdog.logger.critical('a job of a dead actor is left where it is', {
      job_id: name,
      reason: taken.why,
    });
  if (taken.is !== 'taken') return;
  const { job } = taken;
  const { to, changes } = await endOfRun(watchdog, job, run);
  if ((await putJob(watchdog, job, to, changes)) === 'put') sweep.jobs.push({ name, to });
}

async function endOfRun(
  watchdog: Actor,
  job: TakenJob,
  run: RunState,
): Promise<{ readonly to: Exclude<SpoolStatus, 'in-progress'>; readonly changes?: Partial<Lifecycle> }> {
  const { from, lifecycle, folder } = job;
  const to = restingStatus({ from, status: lifecycle.status, hasResult: job.hasResult });
  if (to !== 'stale' || lifecycle.status === 'stale') return { to };
  if (run.is !== 'ended')
    return { to, changes: { reason: run.is === 'lost' ? run.why : 'its agent is gone' } };
  if (!run.outcome.ok) {
    if (job.isKillOrdered) return { to: 'killed', changes: { reason: KILLED_BY_ORDER } };
    const { reason, retriable } = run.outcome;
    return { to: 'failed', changes: { reason, ...(retriable === false && { retriable }) } };
  }
  const { disk } = watchdog.spool.env;
  if (lifecycle.token !== undefined) await syncEvents(disk, folder);
  await writeResult(disk, folder, run.outcome.result);
  return { to: 'succeeded' };
}

/** R1. */
async function sweepLocks(sweep: Sweep): Promise<void> {
  const { env, paths } = sweep.watchdog.spool;
  for (const lockName of await namesIn(env.disk, paths.places.incoming)) {
    const job = jobOfLock(lockName);
    if (job !== undefined) await guarded(sweep, job, () => sweepLock(sweep, job));
  }
}

async function sweepLock(sweep: Sweep, job: string): Promise<void> {
  const { watchdog } = sweep;
  const { env, paths } = watchdog.spool;
  const stat = await env.disk.lstat(lockPath(paths, job));
  const lock = await lockEvidence(sweep, job);
  if (stat?.kind !== 'folder' || !lock) return;
  const actor = lock.owner?.actor;
  const workspace =
    actor !== undefined && isActorId(actor) ? await workspaceEvidence(sweep, actor) : undefined;
  // Without its folder a dead actor would have to be silent for another foreignLockTtlMs.
  const wasDead = actor !== undefined && sweep.actors.includes(actor);
  if (!wasDead && !isDead(sweep, `lock ${job}`, known([lock, workspace]))) return;
  if (await isHeld(sweep, actor, job)) return;
  const judged = { job, nonce: lock.owner?.nonce, identity: stat.identity };
  if (await breakLock(watchdog, judged)) sweep.locks.push(job);
}

/** R5: the job of the lock is still in the folder of the dead agent, because it could not be moved. */
const isHeld = (sweep: Sweep, actor: string | undefined, job: string): Promise<boolean> => {
  const { paths } = sweep.watchdog.spool;
  // A lock may be of a name that no job can have, such as `..`: the path of its job would lead out of the folder.
  if (actor === undefined || !isActorId(actor) || nameProblem(job) !== undefined)
    return Promise.resolve(false);
  return isPresent(sweep, join(paths.places['in-progress'], actor, job));
};
