/**
 * A brain and somebody else work on one token, in all interleavings with up to two switches: one makes i operations of the
 * disk, the other j, then the first goes on to its end, and the other to its own. A brain that is killed anywhere is one
 * that makes i operations and no more.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Actor } from '../../../src/spool/actor.ts';
import { FINDINGS } from '../../../src/spool/findings.ts';
import { loadJob, returnJob } from '../../../src/spool/load.ts';
import { releaseLock } from '../../../src/spool/lock.ts';
import { BrainProcess, runToEnd, TOKEN, TOKEN_JOB } from './brain-process.ts';
import { agentRuns, agentRunsAs, findingsOf, sweepAll, textOf } from './recovery.ts';
import type { SimProcess, SpoolWorld } from './world.ts';
import { SpoolWorld as World } from './world.ts';

/** Of the interleavings, one in so many is tried by default. */
const SAMPLE = process.env['CRASH_ALL'] === '1' ? 1 : 53;
/** By default one in so many numbers of operations of the first side is tried, other ones when the two are swapped. */
const STRIDE = SAMPLE === 1 ? 1 : 3;

/** What a call has answered; undefined: nothing, or it was killed. */
interface Told {
  answer?: string;
}

/** Somebody at work; `timers` of a brain. */
interface Worker {
  readonly process: SimProcess;
  readonly timers?: BrainProcess['timers'];
  readonly told: Told;
}

type Begin = (world: SpoolWorld) => Promise<Worker>;

const brain =
  (epoch: number, call: (brain: BrainProcess) => Promise<string>): Begin =>
  async (world) => {
    const opened = await BrainProcess.open(world, epoch);
    const told: Told = {};
    await opened.process.begin(async () => {
      told.answer = await call(opened).catch((error: { code?: string }) => {
        // The other one has the lock, and has stopped.
        if (error.code !== 'WORKER_BUSY' && error.code !== 'FENCED') throw error;
        return 'nothing';
      });
    });
    return { process: opened.process, timers: opened.timers, told };
  };

const offers = (epoch = 1): Begin =>
  brain(epoch, async ({ backend, offer }) => (await backend.offer(offer)).is);
const kills = (how: 'end' | 'bury', epoch = 1): Begin =>
  brain(epoch, async ({ backend, who }) => (await backend.kill(TOKEN, who, how)).is);
const inspects = (epoch = 1): Begin =>
  brain(
    epoch,
    async ({ backend, who }) => (await backend.inspect([TOKEN], who)).known.get(TOKEN)?.is ?? 'absent',
  );

const agent =
  (work: (actor: Actor, process: SimProcess) => Promise<string>): Begin =>
  async (world) => {
    const process = world.process();
    let actor: Actor | undefined;
    await process.run(async ({ spool }) => {
      actor = await Actor.open(spool, 'agent');
    });
    const told: Told = {};
    await process.begin(async () => {
      told.answer = await work(actor as Actor, process);
    });
    return { process, told };
  };

const runs: Begin = agent((actor, process) => agentRunsAs(actor, process, TOKEN_JOB));

/** Gets the job, and brings it back before it was begun. */
const returns: Begin = agent(async (actor) => {
  const outcome = await loadJob(actor, TOKEN_JOB);
  if (outcome.is !== 'loaded') return outcome.is;
  await returnJob(actor, TOKEN_JOB);
  await releaseLock(actor, outcome.envelope.runtime.lock);
  return 'returned';
});

interface Pair {
  readonly name: string;
  readonly isOffered: boolean;
  readonly one: Begin;
  readonly other: Begin;
  /** What is wrong with the answers, given how often the job was begun when everybody had done all there was to do. */
  readonly wrong: (one: string | undefined, other: string | undefined, begun: number) => string | undefined;
}

const PAIRS: readonly Pair[] = [
  {
    name: 'an offer of an older brain and a kill of a newer one',
    isOffered: false,
    one: offers(1),
    other: kills('bury', 2),
    wrong: (offered, killed, begun) => {
      if (killed === 'tombstoned' && (offered === 'accepted' || begun > 0))
        return 'a token was certain never to run, and was run';
      return offered === 'accepted' && begun === 0 ? 'an accepted job was not run' : undefined;
    },
  },
  {
    name: 'an offer of an older brain and an inspection of a newer one',
    isOffered: false,
    one: offers(1),
    other: inspects(2),
    wrong: (offered, seen) =>
      offered === 'accepted' && seen === 'absent'
        ? 'an older brain has offered after a newer one took over'
        : undefined,
  },
  {
    name: 'an offer that is made again by the next brain',
    isOffered: false,
    one: offers(1),
    other: offers(2),
    wrong: (first, second, begun) => {
      const isAccepted = first === 'accepted' || second === 'accepted';
      if (begun > 1) return 'it was run twice';
      return isAccepted && begun === 0 ? 'an accepted job was not run' : undefined;
    },
  },
  {
    name: 'a kill of a waiting job and an agent that claims it',
    isOffered: true,
    one: kills('end'),
    other: runs,
    wrong: (killed, _, begun) => {
      if (killed === 'tombstoned') return 'a job that was there counts as one that was never there';
      return killed === 'ended' || killed === 'stopping' || killed === undefined || begun === 1
        ? undefined
        : `the kill was answered with ${killed}`;
    },
  },
  {
    name: 'an inspection and an agent that runs the job',
    isOffered: true,
    one: inspects(),
    other: runs,
    wrong: (seen) => (seen === 'absent' ? 'a job that was there was not seen' : undefined),
  },
  {
    name: 'an inspection and an agent that brings the job back',
    isOffered: true,
    one: inspects(),
    other: returns,
    wrong: (seen) => (seen === 'absent' ? 'a job that was there was not seen' : undefined),
  },
  {
    name: 'an offer that is repeated and an agent that brings the job back',
    isOffered: true,
    one: offers(),
    other: returns,
    wrong: (offered, _, begun) =>
      begun > 1 ? 'it was run twice' : offered === 'refused' ? 'a job that was there was refused' : undefined,
  },
  {
    name: 'a kill for certainty and an agent that brings the job back',
    isOffered: true,
    one: kills('bury'),
    other: returns,
    wrong: (killed) =>
      killed === 'tombstoned' ? 'a job that was there counts as one that was never there' : undefined,
  },
];

for (const pair of PAIRS) {
  test(`interleaved: ${pair.name}`, async (t) => {
    let count = 0;
    for (const isSwapped of [false, true]) count += await interleave(pair, isSwapped);
    t.diagnostic(`${count} interleavings and kills`);
    assert.ok(count > 0);
  });
}

async function interleave(pair: Pair, isSwapped: boolean): Promise<number> {
  let count = 0;
  for (let i = isSwapped ? STRIDE >> 1 : 0; ; i += STRIDE)
    for (let j = i % SAMPLE; ; j += SAMPLE) {
      const isKilled = (i + j) % 2 === 1;
      const run = await begun(pair, isSwapped);
      if (!(await steps(run.first.process, i))) return count;
      const isBehindEnd = !(await steps(run.second.process, j));
      const where = `${pair.name}${isSwapped ? ', swapped' : ''}: ${i} operations, then ${j}`;
      await judge(run, pair, isKilled, `${where}${isKilled ? ', and the first is killed' : ''}`);
      count++;
      if (isBehindEnd) break;
    }
}

interface Run {
  readonly world: SpoolWorld;
  readonly one: Worker;
  readonly other: Worker;
  readonly first: Worker;
  readonly second: Worker;
}

async function begun({ isOffered, one, other }: Pair, isSwapped: boolean): Promise<Run> {
  const world = await World.make();
  if (isOffered) {
    const before = await BrainProcess.open(world);
    await before.process.begin(() => before.backend.offer(before.offer));
    await runToEnd(before.process, before.timers);
    before.process.kill();
  }
  const [a, b] = [await one(world), await other(world)];
  return { world, one: a, other: b, first: isSwapped ? b : a, second: isSwapped ? a : b };
}

/** False where the process cannot make so many operations. */
async function steps(process: SimProcess, count: number): Promise<boolean> {
  for (let n = 0; n < count; n++) if (!(await process.step())) return false;
  return true;
}

async function judge(
  { world, one, other, first, second }: Run,
  { wrong }: Pair,
  isKilled: boolean,
  where: string,
): Promise<void> {
  if (isKilled) first.process.kill();
  for (const { process, timers } of [first, second])
    await runToEnd(process, timers).catch((error: unknown) => {
      throw new Error(`${where}: ${error}\n${world.listing()}`, { cause: error });
    });
  const found = (await findingsOf(world))
    .filter(({ code }) => FINDINGS[code].is !== 'unfinished')
    .map(textOf);
  for (const each of [first, second]) each.process.kill();
  await sweepAll(world);
  await world.process().run((process) => agentRuns(process, TOKEN_JOB));
  const problem = wrong(one.told.answer, other.told.answer, world.ledger.count(TOKEN_JOB, 'begun'));
  const problems = [...found, ...world.ledger.problems(), ...(problem === undefined ? [] : [problem])];
  assert.deepEqual(problems, [], `${where}\n${JSON.stringify([one.told, other.told])}\n${world.listing()}`);
}
