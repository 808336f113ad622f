/**
 * Kills the node that leads wherever work for consumers goes out over a real Redis and comes back, while consumers in Python,
 * in Node and `orchd consume` work side by side; another node goes on. `CRASH_ALL=1` kills at many passes of each point.
 */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { test } from 'node:test';
import { connector } from '../../src/stores/mariadb/sql.ts';
import { needPython } from '../fakes/debian.ts';
import { testMariaDb } from '../fakes/mariadb.ts';
import { testRedis } from '../fakes/redis-kit.ts';
import { ConsumerSite } from '../flow/consumer-kit.ts';
import { testFolder } from '../flow/server-process.ts';
import { movingDoor, Storm } from '../flow/storm-kit.ts';
import { scratchFolder } from './folders.ts';
import { LedNodes } from './leader-kit.ts';

/** In the order in which a job passes them: intent, XADD, claim, event, complete, commit, XACK. */
const POINTS = [
  'hint:before-publish',
  'stream:before-add',
  'stream:after-add',
  'claim:before-answer',
  'events:before-answer',
  'loop:after-step',
  'commit:before-replies',
  'results:before-answer',
  'stream:before-ack',
  'stream:after-ack',
];
const { CRASH_ALL: all, CRASH_ONLY: only = '' } = process.env;
const PASSES = all === '1' ? [1, 2, 3, 5, 8, 13, 21, 34] : [3];
const PER_SEC = all === '1' ? 200 : 25;

test('a leader killed anywhere between the intent of a job and the XACK of its entry: each job ends once, and is run once', async (t) => {
  await needPython('python3-redis', 'redis');
  const scratch = scratchFolder('orchd-stream-leader-');
  const server = await testMariaDb();
  const database = await server.database();
  const redis = await testRedis(t);
  const nodes = new LedNodes(scratch, database, { redis: redis.url });
  t.after(async () => {
    await nodes.stop();
    await server.stop();
    fs.rmSync(scratch, { recursive: true, force: true });
  });
  await nodes.fill();
  const door = await movingDoor(t, () => nodes.livePort);
  const site = new ConsumerSite(t, `http://127.0.0.1:${door}`, testFolder(t));
  const payload = { do: 'say', words: ['one ', 'two'] } as const;
  const storm = new Storm(t, site, { redisUrl: redis.url, perSec: PER_SEC, payload });
  await storm.gather();
  storm.begin();
  await storm.allHearOver(redis);
  for (const point of POINTS.filter((each) => each.includes(only)))
    for (const pass of PASSES) {
      await nodes.dies({ point, pass });
      console.log(`# killed at pass ${pass} of ${point}, after ${storm.told.length} jobs`);
      await nodes.fill();
    }
  await storm.allHearOver(redis);
  await storm.end();
  await storm.check();
  const sql = await connector(database)();
  t.after(() => sql.close());
  const [twice] = await sql.query<{ count: number }>(
    "SELECT COUNT(*) AS count FROM (SELECT subject FROM orchestrator_audit WHERE event_type = 'job:succeeded' GROUP BY subject HAVING COUNT(*) > 1) twice",
  );
  assert.equal(Number(twice?.count), 0, 'no job has ended twice');
});
