/**
 * The child process of budget.test.ts: `budget-child.ts CASE_FOLDER`, with CRASH_AT, CRASH_TORN, CRASH_DATABASE and
 * CRASH_NAMES as in workload.ts.
 */
import fs from 'node:fs';
import { buildBrain } from './brain.ts';
import { ENGINE, SLOTS, submitAll, untilEnded } from './budget-world.ts';
import { foldersOf, makeFolders } from './folders.ts';
import { FIRST_INSTANT, SteadyEnv } from './steady-env.ts';
import { Tally } from './tally.ts';
import { watchedConnect } from './watched-connect.ts';

const LIMIT_MS = 10_000_000;

const { CRASH_AT = '0', CRASH_TORN, CRASH_DATABASE: database, CRASH_NAMES: names } = process.env;
const folders = makeFolders(foldersOf(process.argv[2] as string));
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
  const { orchestrator } = buildBrain(env, folders, {
    pace: 'steady',
    background: 'inline',
    ledger: { slots: SLOTS },
    engine: ENGINE,
    watchHistory: (history) => tally.watchHistory(history),
    ...(database !== undefined && { connect: watchedConnect(database, env.call) }),
  });
  await orchestrator.start();
  await submitAll(orchestrator);
  await untilEnded(orchestrator, (ms) => env.sleep(ms));
  await orchestrator.stop();
}, LIMIT_MS);
env.halt();
if (names !== undefined) fs.writeFileSync(names, JSON.stringify(tally.names));
