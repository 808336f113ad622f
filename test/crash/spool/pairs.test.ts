/**
 * Two processes work on one job, in all interleavings with up to two switches: one makes i operations, the other j, then
 * the first goes on to its end, and the other to its own.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { diskErrorCode } from '../../../src/kit/env/env.ts';
import { FINDINGS } from '../../../src/spool/findings.ts';
import { PAIRS, type Pair, type Side } from './pairs.ts';
import { findingsOf, problemsAtTheEnd, textOf } from './recovery.ts';
import { JOB } from './scenarios.ts';
import { preparedWorld, type SimProcess, type SpoolWorld } from './world.ts';

const takesAll = process.env['CRASH_ALL'] === '1';
/** By default one in so many numbers of operations of the first process is tried, other ones when the two are swapped. */
const STRIDE = takesAll ? 1 : 4;
/** The same for the second process, behind each of these. */
const SAMPLE = takesAll ? 1 : 59;

for (const pair of PAIRS) {
  test(`interleaved: ${pair.name}`, async (t) => {
    let count = 0;
    for (const isSwapped of [false, true]) count += await interleave(pair, isSwapped);
    t.diagnostic(`${count} interleavings`);
    assert.ok(count > 0);
  });
}

async function interleave(pair: Pair, isSwapped: boolean): Promise<number> {
  let count = 0;
  for (let i = isSwapped ? STRIDE >> 1 : 0; ; i += STRIDE) {
    for (let j = i % SAMPLE; ; j += SAMPLE) {
      const run = await begun(pair, isSwapped);
      if (!(await steps(run.first, i))) return count;
      const isBehindEnd = !(await steps(run.second, j));
      await judge(run, pair, `${pair.name}${isSwapped ? ', swapped' : ''}: ${i} operations, then ${j}`);
      count++;
      if (isBehindEnd) break;
    }
  }
}

interface Run {
  readonly world: SpoolWorld;
  readonly first: SimProcess;
  readonly second: SimProcess;
}

async function begun({ prepare, one, other }: Pair, isSwapped: boolean): Promise<Run> {
  const world = await preparedWorld(prepare);
  const begin = async (side: Side): Promise<SimProcess> => {
    const { process, work } = await side(world);
    await process.begin(work);
    return process;
  };
  const [a, b] = [await begin(one), await begin(other)];
  return isSwapped ? { world, first: b, second: a } : { world, first: a, second: b };
}

/** False where the process is done before it has made so many operations. */
async function steps(process: SimProcess, count: number): Promise<boolean> {
  for (let n = 0; n < count; n++) if (!(await process.step())) return false;
  return true;
}

async function judge(
  { world, first, second }: Run,
  { isNew, leavesTwin }: Pair,
  where: string,
): Promise<void> {
  for (const process of [first, second])
    await process.runUntil().catch((error: unknown) => {
      // One that was taken for dead finds its folders gone.
      if (diskErrorCode(error) !== 'ENOENT')
        throw new Error(`${where}: ${error}\n${world.listing()}`, { cause: error });
    });
  const found = (await findingsOf(world))
    .filter(({ code }) => FINDINGS[code].is !== 'unfinished' && !(leavesTwin && code === 'TWIN'))
    .map(textOf);
  assert.deepEqual([...found, ...world.ledger.problems()], [], `${where}\n${world.listing()}`);
  for (const process of [first, second]) process.kill();
  if (leavesTwin) return;
  const jobs = isNew && !world.listing().includes(`/incoming/${JOB}/`) ? [] : [JOB];
  assert.deepEqual(await problemsAtTheEnd(world, jobs), [], `${where}, at the end\n${world.listing()}`);
}
