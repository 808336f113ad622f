/**
 * A brain over a spool dies at a crash point, or the daemons of the spool do, or both. No job is lost; none is run again
 * while its first run lives or after it has ended; a follower's stream goes on to the end. `npm test` kills at one pass of
 * each crash point; CRASH_ALL=1 at all of them, CRASH_ONLY='before-offer both' where the name has the words.
 */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import type { Crashpoint } from '../../src/kit/crashpoint.ts';
import { eachAtOnce } from './children.ts';
import { scratchFolder } from './folders.ts';
import { BrainSite, type Kill, VICTIMS } from './spool/brain-site.ts';

/** The crash points that a job goes through; the others have suites of their own. */
const POINTS: readonly Crashpoint[] = [
  'loop:after-step',
  'loop:after-append',
  'commit:before-replies',
  'commit:after-replies',
  'effect:before-offer',
  'effect:after-offer',
  'effect:before-kill',
  'effect:before-ack',
];

const { CRASH_ALL: all, CRASH_ONLY: only = '' } = process.env;
const scratch = scratchFolder('orchd-spool-brain-');
after(() => fs.rmSync(scratch, { recursive: true, force: true, maxRetries: 10 }));

const nameOf = ({ point, nth, victim }: Kill): string => `${point} ${nth} ${victim}`;

/** Of each point the pass in the middle, for one of the victims by turns. */
function killsOf(passed: readonly Crashpoint[]): Kill[] {
  return POINTS.flatMap((point, at) => {
    const passes = passed.filter((each) => each === point).length;
    const every = Array.from({ length: passes }, (_, pass) =>
      VICTIMS.map((victim) => ({ point, nth: pass + 1, victim })),
    ).flat();
    if (all === '1' || only !== '') return every;
    const nth = Math.ceil(passes / 2);
    return every.filter((kill) => kill.nth === nth && kill.victim === VICTIMS[at % VICTIMS.length]);
  }).filter((kill) => only.split(' ').every((word) => nameOf(kill).includes(word)));
}

test('a brain over a spool, its agents, or both are killed: no job is lost or run again, and the stream goes on', {
  timeout: 3_600_000,
}, async () => {
  const whole = new BrainSite(join(scratch, 'whole'));
  assert.deepEqual(await whole.play(), []);
  const { passed } = whole;
  for (const point of POINTS) assert.ok(passed.includes(point), `${point} is never passed`);
  const kills = killsOf(passed);
  const problems: string[] = [];
  let deaths = 0;
  await eachAtOnce(kills, async (kill) => {
    const site = new BrainSite(join(scratch, nameOf(kill).replaceAll(/[: ]/g, '-')));
    const found = await site.play(kill).catch((error: Error) => [String(error.stack)]);
    if (site.wasKilled) deaths++;
    problems.push(...found.map((problem) => `${nameOf(kill)}: ${problem}`));
  });
  console.log(`# killed ${deaths} times in ${kills.length} runs`);
  assert.deepEqual(problems, []);
  // A pass late in one run may not come in another one.
  assert.ok(
    deaths > kills.length / 2,
    `only ${deaths} of ${kills.length} runs came to the place of the kill`,
  );
});
