/**
 * The leader of three nodes on MariaDB is killed repeatedly. Measured is the time until a client of a surviving node has
 * its submit acknowledged, and until every running execution is followed again.
 */
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { type Bench, BODY, type Row, type Values } from '../kit/bench.ts';
import { inChild } from '../kit/child.ts';
import { inFlight, now, quantile, sleep } from '../kit/numbers.ts';
import { Cluster } from '../systems/cluster.ts';
import { startMariaDb } from '../systems/mariadbd.ts';

interface Size {
  readonly live: number;
  readonly running: number;
  readonly kills: number;
}

const SIZES: Record<'quick' | 'full', Size> = {
  quick: { live: 2000, running: 50, kills: 5 },
  full: { live: 100_000, running: 1000, kills: 100 },
};
const PER_CALL = 1000;
/** Concurrent calls while the cluster is filled. */
const CALLS = 8;
const RETRY_MS = 20;

interface Args {
  readonly folder: string;
  readonly database: string;
  readonly size: Size;
}

/** Milliseconds since the kill. */
interface TakeOverTimes {
  readonly elected: number;
  readonly leads: number;
  readonly answered: number;
  readonly followed: number;
}

export async function measure({ folder, database, size }: Args): Promise<Row[]> {
  await using cluster = await Cluster.start(folder, database, size.running);
  await fill(cluster, size);
  const all: TakeOverTimes[] = [];
  for (let kill = 0; kill < size.kills; kill++) all.push(await takeOver(cluster, size, kill));
  await checkAll(cluster, size);
  return rowsOf(all);
}

/** Submits jobs of one type: as many run as the executor has slots, the others wait. */
async function fill(cluster: Cluster, { live, running }: Size): Promise<void> {
  const url = cluster.urlOf(await cluster.leader());
  const all = live + running;
  await inFlight(Math.ceil(all / PER_CALL), CALLS, (at) => {
    const length = Math.min(PER_CALL, all - at * PER_CALL);
    return post(
      url,
      Array.from({ length }, () => jobOf()),
    );
  });
  await cluster.executor.followedBy(0, running);
}

const jobOf = (job_id?: string): object => ({
  job_id,
  type: 'work',
  payload: { body: BODY },
  wait_for_backend: true,
});

async function takeOver(cluster: Cluster, { running }: Size, kill: number): Promise<TakeOverTimes> {
  const leader = await cluster.leader();
  const survivors = cluster.names.filter((name) => name !== leader);
  const url = cluster.urlOf(survivors[kill % survivors.length] as string);
  const epoch = await cluster.epoch();
  const followed = cluster.executor.followedBy(cluster.executor.epoch, running);
  const start = now();
  cluster.killNode(leader);
  const [led, answered, followedAt] = await Promise.all([
    leadsAgain(cluster, epoch),
    acknowledged(url, `probe-${kill}`),
    followed,
  ]);
  await cluster.startNode(leader);
  return {
    elected: led.electedAt - start,
    leads: led.leadsAt - start,
    answered: answered - start,
    followed: followedAt - start,
  };
}

async function leadsAgain(cluster: Cluster, epoch: number): Promise<{ electedAt: number; leadsAt: number }> {
  await cluster.elected(epoch);
  const electedAt = now();
  await cluster.leader();
  return { electedAt, leadsAt: now() };
}

/** Repeats a submit until it is acknowledged, as a client would; the job id makes that safe. */
async function acknowledged(url: string, id: string): Promise<number> {
  for (;;) {
    const status = await post(url, jobOf(id)).catch(() => 0);
    if (status === 202) return now();
    await sleep(RETRY_MS);
  }
}

async function post(url: string, body: object): Promise<number> {
  const response = await fetch(`${url}/v2/tasks`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  await response.arrayBuffer();
  return response.status;
}

/** Throws where an acknowledged job is lost or an execution was started twice. */
async function checkAll(cluster: Cluster, { live, running, kills }: Size): Promise<void> {
  const jobs = await cluster.liveJobs();
  const expected = live + running + kills;
  if (jobs !== expected) throw new Error(`${jobs} jobs are live, ${expected} should be`);
  const { begun } = cluster.executor;
  if (begun !== running) throw new Error(`${begun} executions were begun, ${running} should be`);
}

function rowsOf(all: readonly TakeOverTimes[]): Row[] {
  const row = (name: string, time: (times: TakeOverTimes) => number): Row => ({
    case: name,
    values: spread(all.map(time)),
  });
  return [
    row('take-over', ({ answered }) => answered),
    row('take-over: election', ({ elected }) => elected),
    row('take-over: recovery', ({ elected, leads }) => leads - elected),
    row('take-over: first answer', ({ leads, answered }) => answered - leads),
    row('take-over: all followed again', ({ followed }) => followed),
  ];
}

const spread = (samples: readonly number[]): Values => ({
  p50Ms: quantile(samples, 0.5),
  p95Ms: quantile(samples, 0.95),
  p99Ms: quantile(samples, 0.99),
  maxMs: Math.max(...samples),
});

export const bench: Bench = {
  name: 'takeover',
  title:
    'from kill -9 of the leader on MariaDB to the next acknowledged submit; 100,000 live jobs, 1,000 running',
  rounds: 'once',
  async run({ folder: parent, quick }) {
    const folder = join(parent, 'takeover');
    mkdirSync(folder, { recursive: true });
    await using servers = new AsyncDisposableStack();
    servers.defer(() => rmSync(folder, { recursive: true, force: true }));
    const mariadb = await startMariaDb(join(folder, 'mariadb'));
    servers.defer(() => mariadb.stop());
    const args: Args = { folder, database: await mariadb.database(), size: SIZES[quick ? 'quick' : 'full'] };
    return await inChild({ measure, url: import.meta.url }, args);
  },
};
