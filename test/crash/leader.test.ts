/**
 * Kills the node that leads in the middle of a run with two tools at once, one of which must not be called twice; another
 * node goes on. `npm test` kills at a few passes of crash points, `CRASH_ALL=1` at every pass of every crash point that a
 * run has, `CRASH_ONLY=text` at those whose name contains it.
 */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { after, before, test } from 'node:test';
import { CRASHPOINTS } from '../../src/kit/crashpoint.ts';
import { connector, type Sql } from '../../src/stores/mariadb/sql.ts';
import { type TestServer, testMariaDb } from '../fakes/mariadb.ts';
import { scratchFolder } from './folders.ts';
import { LedNodes } from './leader-kit.ts';
import type { DeathOrder } from './leader-node.ts';

const only = process.env['CRASH_ONLY'] ?? '';
const takesAll = process.env['CRASH_ALL'] === '1' || only !== '';

/** Passes that `npm test` takes. The run waits for its model, for the tools, and for the model again. */
const SAMPLE: readonly DeathOrder[] = [
  { point: 'yield:before-commit', pass: 2 },
  { point: 'yield:after-commit', pass: 2 },
  { point: 'wake', pass: 2 },
  // Both tools have begun.
  { point: 'tools', pass: 2 },
  { point: 'effect:after-offer', pass: 6 },
];
/** Crash points of the journal, and of kills, of which a run has none. */
const WITHOUT = /^checkpoint:|^effect:before-kill$/;
const POINTS = [...CRASHPOINTS.filter((point) => !WITHOUT.test(point)), 'tools'];
/** A run that passes a point more often than this goes in circles. */
const MOST_PASSES = 100;

let server: TestServer;
let sql: Sql;
let nodes: LedNodes;
const scratch = scratchFolder('orchd-leader-');
before(async () => {
  server = await testMariaDb();
  const database = await server.database();
  sql = await connector(database)();
  nodes = new LedNodes(scratch, database, { sql });
  await nodes.fill();
});
after(async () => {
  await nodes.stop();
  await sql.close();
  await server.stop();
  fs.rmSync(scratch, { recursive: true, force: true });
});

async function play(order: DeathOrder): Promise<boolean> {
  const { died, problems } = await nodes.play(order);
  assert.deepEqual(problems, [], `pass ${order.pass} of ${order.point}`);
  await nodes.fill();
  return died;
}

const PROMISE =
  'is followed by a node that ends the run with the same answer, and calls no tool again that has ended';

if (takesAll)
  for (const point of POINTS.filter((each) => each.includes(only)))
    test(`a leader killed at any pass of ${point} ${PROMISE}`, async () => {
      let pass = 1;
      while (pass < MOST_PASSES && (await play({ point, pass }))) pass++;
      console.log(`# ${point}: killed at ${pass - 1} passes`);
      assert.ok(pass > 1, 'it is passed');
    });
else
  test(`a leader killed in a run ${PROMISE}`, async () => {
    for (const order of SAMPLE) assert.ok(await play(order), `${order.point} is passed too rarely`);
  });
