/** Stops a transaction at one of its changes of the disk, and judges what that leaves. */
import assert from 'node:assert/strict';
import type { Chance } from '../../fakes/sim-file.ts';
import { type Machine, PATHS, type Work } from './machine.ts';
import { problemsAtTheEnd, problemsNow } from './recovery.ts';
import { JOB, type Scenario } from './scenarios.ts';
import { preparedWorld, type SpoolWorld } from './world.ts';

/** A world in which something has been stopped. */
export interface Stopped<World extends Machine = Machine> {
  readonly world: World;
  /** What was stopped, and where. */
  readonly where: string;
}

export interface Stop {
  /** Before the n-th change of the disk. */
  readonly at: number;
  /** The write that comes next happens by half. */
  readonly isTorn?: boolean;
}

/** Kills a process at one of its changes; undefined where it is done before. What is no write is not torn. */
export async function killed(
  world: SpoolWorld,
  work: Work,
  { at, isTorn = false }: Stop,
): Promise<string | undefined> {
  const process = world.process();
  await process.begin(work);
  await process.runUntil(at);
  const next = process.waiting[0];
  if (process.isDone || !next) return undefined;
  process.kill({ isTorn });
  return `killed ${isTorn && next.tear ? 'in the middle of' : 'before'} ${next.name} (${at})`;
}

/** The number of changes that a work makes. */
export async function changesOf(world: SpoolWorld, work: Work): Promise<number> {
  const process = world.process();
  await process.run(work);
  return process.changes;
}

export async function stopped(scenario: Scenario, stop: Stop): Promise<Stopped<SpoolWorld> | undefined> {
  const world = await preparedWorld(scenario.prepare);
  const where = await killed(world, scenario.work, stop);
  return where === undefined ? undefined : { world, where: `${scenario.name}: ${where}` };
}

/** Lets a scenario come to its n-th change, or to its end, and cuts the power. */
export async function unpowered(
  scenario: Scenario,
  at: number,
  chance: Chance,
): Promise<Stopped<SpoolWorld> & { readonly isDone: boolean }> {
  const world = await preparedWorld(scenario.prepare);
  const process = world.process();
  await process.begin(scenario.work);
  await process.runUntil(at);
  const { isDone } = process;
  const when = isDone ? 'at the end' : `before ${process.waiting[0]?.name} (${at})`;
  world.cutPower(chance);
  return { world, isDone, where: `${scenario.name}: power cut ${when}` };
}

/** What was done and is known to be done is there after a power cut. */
export function judgeDone({ world, where }: Stopped, { endsIn }: Pick<Scenario, 'endsIn'>): void {
  const folder = PATHS.places[endsIn];
  const lies = [...world.tree.walk()].map(({ path }) => path).filter((path) => path.endsWith(`/${JOB}`));
  const isThere = lies.length === 1 && (lies[0] as string).startsWith(`${folder}/`);
  assert.ok(isThere, `${where}: the job lies in ${lies} and not in ${folder}\n${world.listing()}`);
}

/** Nothing is wrong now, and when everybody has done what there is to do, the job has ended, once. */
export async function judge({ world, where }: Stopped, { isNew }: Pick<Scenario, 'isNew'>): Promise<void> {
  const left = world.listing();
  assert.deepEqual(await problemsNow(world), [], `${where}\n${left}`);
  const isThere = [...world.tree.walk()].some(({ path }) => IN_A_PLACE.test(path));
  const jobs = isNew && !isThere ? [] : [JOB];
  const problems = await problemsAtTheEnd(world, jobs);
  assert.deepEqual(problems, [], `${where}\nleft:\n${left}\nat the end:\n${world.listing()}`);
}

const IN_A_PLACE = /\/(incoming|in-progress|completed|jobs)\/.*job$/;
