/**
 * Kills the brain of a world, on both stores. Each kind of operation that is met once work has begun, and each crash point,
 * dies once, half way through the workload, and those of `everyTime` whenever they are passed; `CRASH_ALL=1` takes all of
 * them, also those that only open the store, `CRASH_ONLY=text` those whose name contains it.
 */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { type OwnServer, ownMariaDb } from '../fakes/mariadb.ts';
import { buildBrain } from './brain.ts';
import { Children, eachAtOnce, runChild } from './children.ts';
import { type Folders, foldersOf, makeFolders, scratchFolder } from './folders.ts';
import { SteadyEnv } from './steady-env.ts';
import { readDied } from './tally.ts';
import { watchedConnect } from './watched-connect.ts';
import type { World } from './world.ts';
import { WORLDS, type WorldName } from './worlds.ts';

const LIMIT_MS = 10_000_000;
const only = process.env['CRASH_ONLY'] ?? '';
const takesAll = process.env['CRASH_ALL'] === '1';

const scratch = scratchFolder('orchd-world-');
const children = new Children(scratch);
let server: OwnServer;
before(async () => {
  server = await ownMariaDb(scratch);
});
after(async () => {
  await server.stop();
  fs.rmSync(scratch, { recursive: true, force: true });
});

interface Case {
  readonly world: WorldName;
  readonly folders: Folders;
  readonly url: string | undefined;
}

type StoreName = 'journal' | 'mariadb';

async function caseOf(world: WorldName, store: StoreName, name: string): Promise<Case> {
  const folders = makeFolders(foldersOf(join(scratch, `${store}-${name}`)));
  return { world, folders, url: store === 'mariadb' ? await server.database() : undefined };
}

function play({ world, folders, url }: Case, env: Record<string, string>): ReturnType<typeof runChild> {
  const script = children.path('world-child.js');
  return runChild([process.execPath, script, world, folders.root], {
    NODE_COMPILE_CACHE: join(scratch, 'compiled'),
    ...env,
    ...(url !== undefined && { CRASH_DATABASE: url }),
  });
}

/** Another brain on what is left: the same is played again. */
async function recover({ world: name, folders, url }: Case, startAt: number): Promise<string[]> {
  const env = new SteadyEnv({ folder: folders.data, startAt, seed: 2 });
  const world = WORLDS[name];
  const played = { folders, sleep: (ms: number) => env.sleep(ms) };
  let problems: string[] = [];
  try {
    await env.run(async () => {
      const { orchestrator } = buildBrain(env, folders, {
        pace: 'steady',
        background: 'inline',
        ...world.options(env, played),
        ...(url !== undefined && { connect: watchedConnect(url, env.call) }),
      });
      await orchestrator.start();
      await world.play(orchestrator, played);
      problems = await world.problems(orchestrator, folders);
      await orchestrator.stop();
    }, LIMIT_MS);
  } finally {
    env.halt();
  }
  return problems;
}

interface Kill {
  readonly at: number;
  readonly name: string;
  readonly torn: boolean;
}

/** Of the operations of one name the one in the middle, or none with `diesOnlyThere`, and all of those in `everyTime`. */
function killsOf(names: readonly string[], everyTime: readonly string[], diesOnlyThere: boolean): Kill[] {
  const all = names.map((name, index) => ({ name, at: index + 1, torn: false }));
  const kinds = Map.groupBy(all, ({ name }) => name.replaceAll(/\d{3,}/g, 'N'));
  // A brain that dies while it opens its store has begun nothing of a world: kill.test.ts kills it there.
  const firstOffer = names.indexOf('point effect:before-offer');
  const some = [...kinds.values()].flatMap((kills) => {
    if (!takesAll && only === '' && (kills.at(-1) as Kill).at <= firstOffer) return [];
    if (takesAll || everyTime.includes((kills[0] as Kill).name)) return kills;
    return diesOnlyThere ? [] : kills.slice(kills.length >> 1, (kills.length >> 1) + 1);
  });
  const isWrite = ({ name }: Kill): boolean => name.startsWith('write ') || name === 'sql commit';
  const both = some.flatMap((kill) => (isWrite(kill) ? [kill, { ...kill, torn: true }] : [kill]));
  return both.filter(({ name }) => name.includes(only));
}

/** Shows on both stores that the world, killed anywhere, has no problems once it was played to its end. */
export function killEverywhere(world: WorldName, promise: string): void {
  for (const store of ['journal', 'mariadb'] as const)
    test(`on ${store}: killed anywhere, ${promise}`, () => killAll(world, store));
}

async function killAll(world: WorldName, store: StoreName): Promise<void> {
  const { done, atLeast, everyTime = [], diesOnlyThere = false }: World = WORLDS[world];
  const whole = await caseOf(world, store, 'whole');
  const file = join(scratch, `${store}-names.json`);
  const end = await play(whole, { CRASH_NAMES: file });
  assert.equal(end.code, 0, end.stderr);
  const count = done(whole.folders);
  assert.ok(count >= atLeast, `only ${count} things were done`);
  assert.deepEqual(await recover(whole, Date.parse('2040-01-01')), []);
  assert.equal(done(whole.folders), count, 'something was done again');
  const names = JSON.parse(fs.readFileSync(file, 'utf8')) as string[];
  const points = everyTime.map((point) => `point ${point}`);
  for (const point of points) assert.ok(names.includes(point), `${point} is never passed`);
  const kills = killsOf(names, points, diesOnlyThere);
  const problems: string[] = [];
  await eachAtOnce(kills, async ({ at, name, torn }) => {
    const title = `${at} ${torn ? 'in the middle of' : 'before'} ${name}`;
    const killed = await caseOf(world, store, `${at}${torn ? '-torn' : ''}`);
    const died = await play(killed, { CRASH_AT: String(at), CRASH_TORN: torn ? '1' : '0' });
    if (died.signal !== 'SIGKILL') problems.push(`${title}: ended with ${died.code} ${died.stderr}`);
    const found = await recover(killed, readDied(killed.folders).time + 1).catch((error: Error) => [
      String(error.stack),
    ]);
    problems.push(...found.map((problem) => `${title}: ${problem}`));
    fs.rmSync(killed.folders.root, { recursive: true, force: true });
  });
  console.log(`# ${store}: ${count} done, killed ${kills.length} times`);
  assert.deepEqual(problems, []);
}
