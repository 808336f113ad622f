/**
 * The process in which a world is played: `world-child.ts WORLD CASE_FOLDER`, with CRASH_AT, CRASH_TORN, CRASH_DATABASE and
 * CRASH_NAMES as in workload.ts.
 */
import fs from 'node:fs';
import { buildBrain } from './brain.ts';
import { foldersOf, makeFolders } from './folders.ts';
import { FIRST_INSTANT, SteadyEnv } from './steady-env.ts';
import { Tally } from './tally.ts';
import { watchedConnect } from './watched-connect.ts';
import { WORLDS, type WorldName } from './worlds.ts';

const LIMIT_MS = 10_000_000;

const { CRASH_AT = '0', CRASH_TORN, CRASH_DATABASE: database, CRASH_NAMES: names } = process.env;
const folders = makeFolders(foldersOf(process.argv[3] as string));
const world = WORLDS[process.argv[2] as WorldName];
let now = (): number => FIRST_INSTANT;
const tally = new Tally(folders, { at: Number(CRASH_AT), torn: CRASH_TORN === '1' }, () => now());
const env = new SteadyEnv({
  folder: folders.data,
  startAt: FIRST_INSTANT,
  seed: 1,
  before: (operation) => tally.before(operation),
});
now = () => env.clock.now();
tally.arm();
await env.run(async () => {
  const played = { folders, sleep: (ms: number) => env.sleep(ms) };
  const { orchestrator } = buildBrain(env, folders, {
    pace: 'steady',
    background: 'inline',
    ...world.options(env, played),
    watchHistory: (history) => tally.watchHistory(history),
    ...(database !== undefined && { connect: watchedConnect(database, env.call) }),
  });
  await orchestrator.start();
  await world.play(orchestrator, played);
  await orchestrator.stop();
}, LIMIT_MS);
env.halt();
if (names !== undefined) fs.writeFileSync(names, JSON.stringify(tally.names));
