/**
 * A schedule that is due every second, while its brain is killed again and again: each tick is one job, and none is missing.
 * SCHEDULE_TICKS=120 SCHEDULE_KILLS=5 goes on for two minutes, with five kills in them; on a cluster, two of the kills
 * are changes of the leader.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { tickJobId } from '../../src/model/schedule.ts';
import { type TestServer, testMariaDb } from '../fakes/mariadb.ts';
import { Cluster } from '../flow/cluster-kit.ts';
import { serve, testFolder } from '../flow/server-process.ts';

const KILLS = Number(process.env['SCHEDULE_KILLS'] ?? 3);
const REPLACED = 2;
/** Each brain is left alone for its part of the ticks. */
const TICKS = Math.ceil(Number(process.env['SCHEDULE_TICKS'] ?? 8) / (KILLS + 1));
const SCHEDULES = [
  {
    name: 's',
    every_sec: 1,
    overlap: 'queue',
    catch_up: 'all',
    job: { type: 'work', wait_for_backend: true },
  },
];

interface Node {
  readonly url: string;
}

async function jobsOf({ url }: Node): Promise<string[]> {
  const response = await fetch(`${url}/v2/tasks?tag=schedule%3Ds&limit=1000`);
  const { jobs } = (await response.json()) as { jobs: { job_id: string }[] };
  return jobs.map(({ job_id }) => job_id).sort();
}

/** Until there are so many more jobs than before. */
async function ticksPass(node: Node, ticks: number): Promise<number> {
  const before = (await jobsOf(node)).length;
  for (let now = before; ; now = (await jobsOf(node).catch(() => [])).length) {
    if (now >= before + ticks) return now;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

const instantOf = (id: string): number =>
  Date.parse(
    id.replace(
      /^.*\.(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/,
      (_, ...[y, m, d, h, min, s]) => `${y}-${m}-${d}T${h}:${min}:${s}Z`,
    ),
  );

function assertEachOnce(ids: readonly string[]): void {
  const [first, last] = [instantOf(ids[0]!), instantOf(ids.at(-1)!)];
  const wanted = Array.from({ length: (last - first) / 1000 + 1 }, (_, at) =>
    tickJobId('s', first + at * 1000),
  );
  assert.deepEqual(ids, wanted);
}

/** At least as many ticks as the brains were left alone for. */
function assertAll(ids: readonly string[]): void {
  assertEachOnce(ids);
  assert.ok(ids.length >= TICKS * (KILLS + 1), `${ids.length} ticks`);
  console.log(`# ${ids.length} ticks, ${KILLS} kills`);
}

test('a brain that is killed again and again leaves out no tick, and doubles none', {
  timeout: 240_000,
}, async (t) => {
  const data = testFolder(t);
  const config = { schedules: SCHEDULES, backends: { demo: false } };
  for (let kill = 0; kill < KILLS; kill++) {
    const brain = await serve(t, { data, config });
    await ticksPass(brain, TICKS);
    await brain.kill();
  }
  const brain = await serve(t, { data, config });
  await ticksPass(brain, TICKS);
  assertAll(await jobsOf(brain));
});

let server: Promise<TestServer> | undefined;
after(async () => (await server)?.stop());

test('leaders that are killed, and restarted or replaced, leave out no tick, and double none', {
  timeout: 240_000,
}, async (t) => {
  server ??= testMariaDb();
  const cluster = await Cluster.on(t, await server);
  const begin = (node: string) =>
    cluster.start(node, { config: { ...cluster.config(node), schedules: SCHEDULES } });
  let leader = await begin('n0');
  await cluster.leads(leader);
  for (let kill = 0; kill < KILLS; kill++) {
    const isReplaced = kill >= KILLS - REPLACED;
    // Another node waits already where the leader is replaced; otherwise the same one comes back.
    const other = isReplaced ? await begin(`n${kill + 1}`) : undefined;
    await ticksPass(leader, TICKS);
    await leader.kill();
    leader = other ?? (await begin('n0'));
    await cluster.leads(leader);
  }
  await ticksPass(leader, TICKS);
  assertAll(await jobsOf(leader));
});
