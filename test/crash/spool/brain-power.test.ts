/** Cuts the power, or kills the brain, before every change that an offer or a kill makes to the disk. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { FINDINGS } from '../../../src/spool/findings.ts';
import { BrainProcess, runToEnd, TOKEN, TOKEN_JOB } from './brain-process.ts';
import { PATHS } from './machine.ts';
import { agentRuns, findingsOf, sweepAll, textOf } from './recovery.ts';
import { SpoolWorld } from './world.ts';

type Call = (brain: BrainProcess) => Promise<string>;

const offers: Call = async ({ backend, offer }) => (await backend.offer(offer)).is;
const buries: Call = async ({ backend, who }) => (await backend.kill(TOKEN, who, 'bury')).is;
const kills: Call = async ({ backend, who }) => (await backend.kill(TOKEN, who)).is;

const FAULTS = {
  'the power is cut, and all that was not synced is lost': (world: SpoolWorld) => world.cutPower(() => false),
  'the power is cut, and nothing is lost': (world: SpoolWorld) => world.cutPower(() => true),
  'the brain is killed': () => undefined,
} as const;

interface Case {
  readonly name: string;
  readonly before: readonly Call[];
  readonly call: Call;
  /** Where the folder of the token lies once the call was answered. */
  readonly endsIn: 'incoming' | 'killed';
  /** What the next brain may be told about an offer of the token. */
  readonly next: readonly string[];
}

const CASES: readonly Case[] = [
  { name: 'an offer', before: [], call: offers, endsIn: 'incoming', next: ['accepted'] },
  { name: 'a tombstone', before: [], call: buries, endsIn: 'killed', next: ['accepted', 'refused'] },
  { name: 'a kill of a waiting job', before: [offers], call: kills, endsIn: 'killed', next: ['accepted'] },
];

async function answered(world: SpoolWorld, epoch: number, call: Call): Promise<string> {
  const brain = await BrainProcess.open(world, epoch);
  let answer = '';
  await brain.process.begin(async () => {
    answer = await call(brain);
  });
  await runToEnd(brain.process, brain.timers);
  brain.process.kill();
  return answer;
}

for (const [fault, strike] of Object.entries(FAULTS))
  for (const each of CASES)
    test(`${each.name}: ${fault}`, async (t) => {
      let count = 0;
      for (let isDone = false; !isDone; count++) isDone = await struck(each, count + 1, strike);
      t.diagnostic(`${count} faults`);
    });

/** Returns whether the call was answered before the fault. */
async function struck(
  { before, call, endsIn, next }: Case,
  at: number,
  strike: (world: SpoolWorld) => void,
): Promise<boolean> {
  const world = await SpoolWorld.make();
  for (const earlier of before) await answered(world, 1, earlier);
  const brain = await BrainProcess.open(world);
  const { changes } = brain.process;
  await brain.process.begin(() => call(brain));
  await brain.process.runUntil(changes + at);
  const { isDone } = brain.process;
  const where = isDone ? 'at the end' : `before ${brain.process.waiting[0]?.name}`;
  brain.process.kill();
  strike(world);
  const lies = [...world.tree.walk()].map(({ path }) => path).filter((path) => path.endsWith(TOKEN_JOB));
  if (isDone) assert.deepEqual(lies, [join(PATHS.places[endsIn], TOKEN_JOB)], `${where}\n${world.listing()}`);
  await sweepAll(world);
  const answer = await answered(world, 2, offers);
  assert.ok(next.includes(answer), `${where}: the next brain is told ${answer}\n${world.listing()}`);
  if (isDone && endsIn === 'killed' && before.length === 0) assert.equal(answer, 'refused', where);
  for (let time = 0; time < 2; time++) await world.process().run((process) => agentRuns(process, TOKEN_JOB));
  const begun = world.ledger.count(TOKEN_JOB, 'begun');
  const isKilled = isDone && endsIn === 'killed';
  assert.ok(begun <= 1 && !(isKilled && begun > 0), `${where}: it was begun ${begun} times`);
  if (answer === 'accepted' && !isKilled && before.length === 0) assert.equal(begun, 1, where);
  const found = (await findingsOf(world)).filter(({ code }) => FINDINGS[code].is === 'broken').map(textOf);
  assert.deepEqual([...found, ...world.ledger.problems()], [], `${where}\n${world.listing()}`);
  return isDone;
}
