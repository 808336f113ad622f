/** Lets everything that was left come to its end, and judges what that is. */
import { Actor } from '../../../src/spool/actor.ts';
import { commitJob, saveResult } from '../../../src/spool/commit.ts';
import type { Finding, FindingCode } from '../../../src/spool/findings.ts';
import { checkSpool } from '../../../src/spool/invariants.ts';
import { jobOfLock } from '../../../src/spool/layout.ts';
import { loadJob } from '../../../src/spool/load.ts';
import { Heartbeats } from '../../../src/spool/owner.ts';
import { namesIn } from '../../../src/spool/plain-files.ts';
import { sweepSpool } from '../../../src/spool/repair.ts';
import { RETRIED_PLACES, retryJob } from '../../../src/spool/retry.ts';
import { type Machine, type MachineProcess, TTL_MS } from './machine.ts';

export async function agentRuns(
  process: MachineProcess,
  name: string,
  to: 'succeeded' | 'failed' | 'killed' = 'succeeded',
): Promise<void> {
  const agent = await Actor.open(process.spool, 'agent');
  await agentRunsAs(agent, process, name, to);
  await agent.close();
}

/** A whole life of a job with an agent that has been opened. */
export async function agentRunsAs(
  agent: Actor,
  process: MachineProcess,
  name: string,
  to: 'succeeded' | 'failed' | 'killed' = 'succeeded',
): Promise<string> {
  const outcome = await loadJob(agent, name);
  if (outcome.is !== 'loaded') return outcome.is;
  const { envelope } = outcome;
  if (!envelope.runtime.isFinished) {
    process.world.ledger.begin(name, process.identity.pid);
    if (to === 'succeeded' && (await saveResult(agent, envelope, { of: name })) === 'lost') return 'lost';
  }
  return commitJob(agent, envelope, envelope.runtime.isFinished ? 'succeeded' : to);
}

export async function watchdogSweeps(
  { spool, world }: MachineProcess,
  heartbeats?: Heartbeats,
): Promise<void> {
  const watchdog = await Actor.open(spool, 'watchdog');
  await sweepSpool(watchdog, heartbeats ?? new Heartbeats(() => world.now));
  await watchdog.close();
}

async function managerRetries({ spool }: MachineProcess): Promise<void> {
  const manager = await Actor.open(spool, 'manager');
  for (const place of RETRIED_PLACES)
    for (const name of await namesIn(spool.env.disk, spool.paths.places[place]))
      await retryJob(manager, place, name);
  await manager.close();
}

async function agentDrains(process: MachineProcess): Promise<void> {
  const { env, paths } = process.spool;
  for (const name of await namesIn(env.disk, paths.places.incoming))
    if (jobOfLock(name) === undefined) await agentRuns(process, name);
}

/** Findings that must not be there at any instant, whoever is in the middle of what. */
const NEVER: readonly FindingCode[] = [
  'FOLDER_MISSING',
  'WRONG_PLACE',
  'MISSING_RESULT',
  'TWIN',
  'UNREADABLE_JOB',
  'BAD_PROMPT',
  'WRONG_HISTORY',
];

export const textOf = ({ code, path, why }: Finding): string => `${code} ${path}: ${why}`;

export async function findingsOf(world: Machine): Promise<Finding[]> {
  let found: Finding[] = [];
  await world.process().run(async ({ spool }) => {
    found = await checkSpool(spool);
  });
  return found;
}

/** What is wrong with a world in the middle of something. */
export async function problemsNow(world: Machine): Promise<string[]> {
  const found = await findingsOf(world);
  return [...found.filter(({ code }) => NEVER.includes(code)).map(textOf), ...world.ledger.problems()];
}

/** What a sweep looks at and finds nothing in when there is nothing left to do. */
const leftovers = (world: Machine): string[] =>
  [...world.tree.walk()].map(({ path }) => path).filter((path) => /\/(tmp|in-progress)\/|\.lock$/.test(path));

/** Sweeps until nothing is left, or whoever cannot be asked for has been silent for long enough. */
export async function sweepAll(world: Machine): Promise<void> {
  const heartbeats = new Heartbeats(() => world.now);
  for (let round = 0; round < 3 && leftovers(world).length > 0; round++) {
    await world.process().run((process) => watchdogSweeps(process, heartbeats));
    world.now += TTL_MS + 1;
  }
}

/** A job that is not in a place where it rests. */
const hasWork = (world: Machine): boolean =>
  [...world.tree.walk()].some(({ path }) => /\/(incoming|stale|failed)\/[^/]+$/.test(path));

/** Lets watchdogs, managers and agents do all there is to do, and says what is wrong then. */
export async function problemsAtTheEnd(world: Machine, jobs: readonly string[]): Promise<string[]> {
  await sweepAll(world);
  for (let round = 0; round < 4 && hasWork(world); round++) {
    await world.process().run(managerRetries);
    await world.process().run(agentDrains);
  }
  await sweepAll(world);
  const places = [...world.tree.walk()].map(({ path }) => path);
  const problems = (await findingsOf(world)).map(textOf);
  for (const job of jobs) {
    const lies = places.filter((path) => path.endsWith(`/${job}`));
    const isEnded = lies.length === 1 && /\/completed\/(succeeded|failed|killed)\//.test(lies[0] as string);
    if (!isEnded) problems.push(`${job} lies in ${lies.join(' and ') || 'no place'}`);
  }
  const left = leftovers(world).map((path) => `${path} is left`);
  return [...problems, ...left, ...world.ledger.problems()];
}
