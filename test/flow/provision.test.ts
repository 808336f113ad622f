/** `orchd provision` keeps worker pools at their size with real processes, while it, they and the brain are killed. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { realEnv } from '../../src/kit/env/real.ts';
import { makeToken, type TokenEntry } from '../../src/wire/tokens.ts';
import { begun } from '../fakes/consumer-programs.ts';
import { httpBrain } from '../fakes/http-brain.ts';
import { MAIN, type Running, start } from './cli-process.ts';
import { aMoment } from './consumer-kit.ts';
import { LASTING, onStores, tempFolder, within } from './flow-kit.ts';
import { assertOnce, ProvisionSite } from './provision-kit.ts';
import { testFolder } from './server-process.ts';

const LOAD = 150;
/** Each change of a number within a test takes a few looks; a machine that is busy may take long for each. */
const PATIENCE_MS = 180_000;

onStores(
  'a worker pool goes from 1 to 8 processes and back under load, and is drained, while brain and provisioner are killed: no job is lost or run twice',
  LASTING,
  async (t, data) => {
    const site = await ProvisionSite.of(t, data, {
      orchestrator: { retry: { base_delay_ms: 10, max_delay_ms: 10 } },
    });
    await site.create(1);
    let provisioner = site.provision();
    const [first] = await within(site.agree(1, 'running'), PATIENCE_MS);
    // One that is killed while it has nothing to do is replaced.
    process.kill(first ?? 0, 'SIGKILL');
    while (site.pids().includes(first ?? 0)) await aMoment();
    const [second] = await within(site.agree(1, 'running'), PATIENCE_MS);

    const ids = Array.from({ length: LOAD }, (_, n) => `job${n}`);
    const submitted = (async () => {
      for (const id of ids) await site.submit(id, { do: 'note' });
    })();
    await site.resize(8);
    const eight = await within(site.agree(8, 'running'), PATIENCE_MS);
    assert.ok(eight.includes(second ?? 0), 'the one that ran goes on');

    await site.kill(provisioner);
    provisioner = site.provision();
    await provisioner.saw('out', /processes of an earlier provisioner were taken over.*"count":8/);
    await site.killBrain();
    assert.deepEqual(await within(site.agree(8, 'running'), PATIENCE_MS), eight, 'the same processes');

    await site.resize(1);
    await within(site.agree(1, 'running'), PATIENCE_MS);
    await submitted;

    const until = join(site.folder, 'go');
    await site.submit('held', { do: 'hold', until });
    while (!begun(site.ledger).includes('held:1')) await aMoment();
    await site.order('drain');
    await site.kill(provisioner);
    provisioner = site.provision();
    await within(site.agree(1, 'draining'), PATIENCE_MS);
    writeFileSync(until, '');
    await within(site.agree(0, 'stopped'), PATIENCE_MS);
    assert.deepEqual(
      (await site.ended('held')).attempts.map(({ outcome }) => outcome),
      ['succeeded'],
    );

    await site.submit('late', { do: 'note' });
    await site.create(2);
    await within(site.agree(2, 'running'), PATIENCE_MS);
    for (const id of [...ids, 'late']) assert.equal((await site.ended(id)).state, 'succeeded', id);
    assertOnce(begun(site.ledger));
    provisioner.child.kill('SIGTERM');
    assert.equal((await within(provisioner.ended)).code, 0);
    assert.equal(site.pids().length, 2, 'processes go on without the provisioner');
  },
);

/** Notes that it has begun, and waits for a file. */
const COMMAND = 'echo "began $JOB_ID" >> "$0"; while [ ! -e "$1" ]; do sleep 0.05; done; echo "{}"';

async function consumeSite(
  t: TestContext,
  lease: string,
): Promise<{ site: ProvisionSite; until: string; start: () => Running }> {
  const site = await ProvisionSite.of(t);
  const until = join(site.folder, 'go');
  const consume = [process.execPath, MAIN, 'consume', '--type', 'work', '--lease', lease];
  const command = [...consume, '--', 'sh', '-c', COMMAND, site.ledger, until];
  await site.create(1);
  return { site, until, start: () => site.provision({ command }) };
}

const linesOf = (file: string): string[] =>
  existsSync(file) ? readFileSync(file, 'utf8').split('\n').slice(0, -1) : [];

test('a command of orchd consume goes on when consumer and provisioner are killed, and its result is delivered', async (t) => {
  const { site, until, start } = await consumeSite(t, '120s');
  const provisioner = start();
  await site.submit('job', {});
  while (linesOf(site.ledger).length === 0) await aMoment();
  const [consumer] = consumersOf(site);
  await site.kill(provisioner);
  process.kill(consumer ?? 0, 'SIGKILL');
  start();
  while (consumersOf(site).filter((pid) => pid !== consumer).length === 0) await aMoment();
  writeFileSync(until, '');
  const { state, attempts } = await within(site.ended('job'), PATIENCE_MS);
  assert.deepEqual([state, attempts.length], ['succeeded', 1]);
  assert.deepEqual(linesOf(site.ledger), ['began job']);
});

test('an evicted worker pool has no process at once, not even the commands of its consumers, and its job is run again', async (t) => {
  const { site, until, start } = await consumeSite(t, '2s');
  start();
  await site.submit('job', {});
  while (linesOf(site.ledger).length === 0) await aMoment();
  assert.ok(site.pids().length >= 2, 'the consumer, and the command');
  await site.order('evict');
  await within(site.agree(0, 'evicted'), PATIENCE_MS);
  await site.create(1);
  while (linesOf(site.ledger).length < 2) await aMoment();
  writeFileSync(until, '');
  const { state, attempts } = await within(site.ended('job'), PATIENCE_MS);
  assert.deepEqual([state, attempts.length], ['succeeded', 2]);
});

test('[NEWS-10] a drained worker pool whose grace time is over has no process left, and is stopped when its job was given up', async (t) => {
  const { site, until, start } = await consumeSite(t, '2s');
  start();
  await site.submit('job', {});
  while (linesOf(site.ledger).length === 0) await aMoment();
  await site.call('POST', '/workers/pool/p/drain', { grace_seconds: 1 });
  await within(site.agree(0, 'stopped'), PATIENCE_MS);
  const { state, attempts } = await site.job('job');
  assert.deepEqual([state, attempts.map(({ state: each }) => each)], ['queued', ['abandoned']]);
  await site.create(1);
  writeFileSync(until, '');
  assert.equal((await within(site.ended('job'), PATIENCE_MS)).state, 'succeeded');
  assert.equal(linesOf(site.ledger).length, 2);
});

/** Processes of `orchd consume`, without those of its commands. */
const consumersOf = (site: ProvisionSite): number[] =>
  site.pids().filter((pid) => wordsOf(pid).includes('consume'));

function wordsOf(pid: number): readonly string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
  } catch {
    return [];
  }
}

test('a loop that computes like the HPA moves a worker pool from 1 to 8 and back over 2,000 jobs', async (t) => {
  const site = await ProvisionSite.of(t);
  await site.create(1);
  site.provision();
  await within(site.agree(1, 'running'), PATIENCE_MS);
  const until = join(site.folder, 'go');
  // Those at the head hold every slot until all eight are there.
  const held = Array.from({ length: 16 }, (_, n) => `held${n}`);
  const ids = [...held, ...Array.from({ length: 1984 }, (_, n) => `job${n}`)];
  const isOver = scaled(site);
  for (const id of held) await site.submit(id, { do: 'hold', until });
  const submitted = Promise.all(
    [0, 1, 2, 3].map(async (part) => {
      for (let at = 16 + part; at < ids.length; at += 4) await site.submit(ids[at] ?? '', { do: 'note' });
    }),
  );
  await within(site.agree(8, 'running'), PATIENCE_MS);
  while (begun(site.ledger).length < 16) await aMoment();
  writeFileSync(until, '');
  await submitted;
  await within(site.agree(1, 'running'), PATIENCE_MS);
  for (const id of ids) assert.equal((await site.ended(id)).state, 'succeeded', id);
  isOver();
  // What a consumer gives back without having begun it has another attempt, and still begins once.
  const jobs = begun(site.ledger).map((token) => token.split(':')[0]);
  assert.deepEqual(jobs.sort(), [...ids].sort());
});

interface Scaling {
  readonly waiting: number;
  readonly running: number;
  readonly consumers: number;
}

/** Sets the size as a HorizontalPodAutoscaler does, with a target of two jobs for each replica. */
function scaled(site: ProvisionSite): () => void {
  const [target, tolerance, most, kept] = [2, 0.1, 8, 5];
  let size = 1;
  const recent: number[] = [];
  let isOver = false;
  const round = async (): Promise<void> => {
    const { waiting, running } = await site.call<Scaling>('GET', '/v2/scaling/p');
    const ratio = (waiting + running) / size / target;
    const wanted = Math.abs(ratio - 1) <= tolerance ? size : Math.ceil(size * ratio);
    recent.push(Math.min(most, Math.max(1, wanted)));
    // Down only to the largest of the last recommendations.
    const next = Math.max(recent.at(-1) ?? 1, ...recent.slice(-kept));
    if (next !== size) await site.resize(next);
    size = next;
  };
  void (async () => {
    while (!isOver) {
      await round().catch(() => undefined);
      await aMoment();
    }
  })();
  return () => {
    isOver = true;
  };
}

/** The process dies when it reaches a place for the second time. */
const DIES = `
const { armCrashpoints } = await import(process.env.CRASHPOINTS);
let left = 1;
armCrashpoints((name) => {
  if (name === process.env.DIES_AT && left-- === 0) process.kill(process.pid, 'SIGKILL');
});
`;

test('a provisioner that is killed while it starts or ends a process has a successor that neither doubles nor forgets one', async (t) => {
  const site = await ProvisionSite.of(t);
  const command = ['sleep', '600'];
  await site.create(0);
  const preload = join(site.folder, 'dies.mjs');
  writeFileSync(preload, DIES);
  const crashpoints = new URL('../../src/kit/crashpoint.ts', import.meta.url).href;
  for (const [point, from, to] of [
    ['provision:before-start', 0, 3],
    ['provision:before-signal', 3, 1],
    ['provision:after-start', 1, 4],
    ['provision:before-remove', 4, 0],
  ] as const) {
    const before = site.pids();
    assert.equal(before.length, from);
    await site.resize(to);
    const env = { NODE_OPTIONS: `--import=${preload}`, CRASHPOINTS: crashpoints, DIES_AT: point };
    assert.equal((await within(site.provision({ command, env }).ended)).code, null, point);
    const left = site.pids();
    const successor = site.provision({ command });
    const found = await within(site.agree(to, 'running'), PATIENCE_MS);
    const [few, many] = to > from ? [left, found] : [found, before];
    assert.deepEqual(
      few.filter((pid) => !many.includes(pid)),
      [],
      `those that ran at ${point} go on`,
    );
    await site.kill(successor);
  }
});

test('a token with the role of consumers is enough; one that is refused, and a folder that is taken, are no start', async (t) => {
  const made = makeToken(realEnv().random, 0, 'consumer', 'consumer');
  const operator = makeToken(realEnv().random, 0, 'operator', 'operate');
  const tokens: TokenEntry[] = [made.entry, operator.entry];
  const brain = await httpBrain({ data: tempFolder(t), tokens });
  t.after(() => brain.stop());
  const headers = { authorization: `Bearer ${operator.token}`, 'content-type': 'application/json' };
  const pool = async () =>
    (await (await fetch(`${brain.url}/workers/pool/p`, { headers })).json()) as { spawned_workers: number };
  const body = JSON.stringify({ pool_id: 'p', desired_workers: 1 });
  await fetch(`${brain.url}/workers/pool`, { method: 'POST', headers, body });
  const folder = testFolder(t);
  const provision = (state: string, token: string) =>
    start(['provision', '--state', join(folder, state), '--end-workers', '--', 'sleep', '600'], {
      env: { ORCHD_URL: brain.url, ORCHD_TOKEN: token },
    });
  const first = provision('a', made.token);
  while ((await pool()).spawned_workers !== 1) await aMoment();
  const second = await within(provision('a', made.token).ended);
  assert.equal(second.code, 2);
  assert.match(second.err, /another `orchd provision` has the folder/);
  const refused = await within(provision('b', `${made.token.slice(0, -1)}x`).ended);
  assert.equal(refused.code, 2);
  assert.match(refused.err, /UNAUTHORIZED/);
  const none = await within(start(['provision']).ended);
  assert.equal(none.code, 2);
  first.child.kill('SIGTERM');
  assert.equal((await within(first.ended)).code, 0);
  assert.equal((await pool()).spawned_workers, 0, 'with --end-workers the processes end with it');
});
