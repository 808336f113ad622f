/**
 * A process that works on a spool on a real disk, and dies before one of its changes of the disk:
 * `kill-child.js FOLDER SPOOL SCENARIO`. CRASH_AT is the number of the change, counted from 1, 0 for never; with
 * CRASH_TORN=1 the write happens by half. `died.json` in FOLDER tells where it died, or what all of its changes were.
 */
import fs from 'node:fs';
import { join } from 'node:path';
import { SteadyEnv } from '../steady-env.ts';
import type { Operation } from '../watched-disk.ts';
import { DAEMONS, runDaemon } from './daemon-scenarios.ts';
import { DiskWorld } from './disk-world.ts';
import { pathsIn } from './real-process.ts';
import { SCENARIOS } from './scenarios.ts';

const LOOKS = /^(open-plain|open-read|list|entries|stat|lstat|read|size|close)$/;
const LIMIT_MS = 600_000;

const [folder = '', spool = '', name = ''] = process.argv.slice(2);
const killAt = Number(process.env['CRASH_AT'] ?? 0);
const isTorn = process.env['CRASH_TORN'] === '1';

const changes: string[] = [];
const env = new SteadyEnv({
  folder: spool,
  startAt: Date.now(),
  seed: process.pid,
  before: (operation) => (LOOKS.test(operation.kind) ? undefined : beforeChange(operation)),
  after: ({ kind, path }) => {
    if (kind === 'rename') world.ledger.onRename(`/${path.split(' ')[1]}`, process.pid);
  },
});
const world = new DiskWorld(pathsIn(folder, spool));

async function beforeChange(operation: Operation): Promise<void> {
  changes.push(operation.name);
  if (changes.length !== killAt) return;
  if (isTorn) await operation.tear?.();
  const where = isTorn && operation.tear ? 'in the middle of' : 'before';
  fs.writeFileSync(
    join(folder, 'died.json'),
    JSON.stringify({ where: `${where} ${operation.name} (${killAt})` }),
  );
  process.kill(process.pid, 'SIGKILL');
  await new Promise(() => undefined);
}

const scenario = SCENARIOS.find((each) => each.name === name);
const daemon = DAEMONS.find((each) => each.name === name);
await env.run(async () => {
  const own = world.ownProcess(env);
  if (scenario) await scenario.work(own);
  else if (daemon) await runDaemon(daemon, env, own);
  else throw new Error(`there is no scenario "${name}"`);
}, LIMIT_MS);
fs.writeFileSync(join(folder, 'died.json'), JSON.stringify({ changes }));
process.exit(0);
