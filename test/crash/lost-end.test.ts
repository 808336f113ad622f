/**
 * A log that has lost acknowledged changes at its end, and an index of ended jobs that belongs to another log. Neither
 * starts silently, and nothing that is acknowledged after an accepted loss is forgotten.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { createOrchestrator, examine, type Orchestrator, salvage } from '../../src/index.ts';
import { RealDisk } from '../../src/kit/env/real-disk.ts';
import { createLogger } from '../../src/kit/logger.ts';
import { segmentStart } from '../../src/stores/journal/layout.ts';
import { readFrame } from '../../src/stores/journal/log/frame.ts';
import { copyFolder } from '../fakes/copy-folder.ts';
import { engineOf } from '../fakes/engine-of.ts';
import { scratchFolder } from './folders.ts';

const root = scratchFolder('orchd-lost-end-');
after(() => fs.rmSync(root, { recursive: true, force: true }));
let folders = 0;
const newFolder = (): string => join(root, `${++folders}`);

let logged: string[] = [];
const logger = createLogger({ level: 'warn', now: Date.now, write: (line: string) => logged.push(line) });

const start = (data: string): Promise<Orchestrator> =>
  createOrchestrator({
    data,
    logger,
    backends: [{ name: 'local', slots: 4, types: { inference: () => 'done' } }],
  });

/** For a start that must be refused: a brain that starts all the same is stopped, so that the test can end. */
const startAndStop = (data: string): Promise<void> => start(data).then((brain) => brain.stop());

/** Submits jobs, and waits until they have ended and only the index holds them. */
async function runJobs(brain: Orchestrator, count: number, name: string): Promise<string[]> {
  const ids = Array.from({ length: count }, (_, n) => `${name}-${n}`);
  for (const job_id of ids) await brain.submit({ job_id, payload: job_id });
  for (const id of ids) await brain.wait(id);
  while (engineOf(brain).state.jobs.size > 0) await new Promise((resolve) => setTimeout(resolve, 5));
  return ids;
}

/** The folder as a kill -9 at this instant leaves it. */
function killedCopy(folder: string): string {
  const copy = newFolder();
  copyFolder(folder, copy, ['lock']);
  return copy;
}

interface LastSegment {
  readonly path: string;
  readonly bytes: Buffer;
  /** Where each frame of it ends. */
  readonly frames: readonly number[];
}

function lastSegment(folder: string): LastSegment {
  const log = join(folder, 'log');
  const names = fs.readdirSync(log).filter((name) => segmentStart(name) !== undefined);
  const path = join(log, names.sort().at(-1) as string);
  const bytes = fs.readFileSync(path);
  const frames: number[] = [];
  for (let at = 0; ; ) {
    const read = readFrame(bytes, at);
    if (read.is !== 'frame') return { path, bytes, frames };
    frames.push(read.end);
    at = read.end;
  }
}

/** A hash of every file in a folder but the lock, what tells the folder from a copy, and the index, into which SQLite moves its own log when it is opened. */
function contents(folder: string): Map<string, string> {
  const names = fs.readdirSync(folder, { recursive: true, encoding: 'utf8' });
  const files = names.filter((name) => !/^(lock|history|folder)/.test(name)).sort();
  const hashOf = (name: string): string =>
    createHash('sha256')
      .update(fs.readFileSync(join(folder, name)))
      .digest('hex');
  const isFile = (name: string): boolean => fs.statSync(join(folder, name)).isFile();
  return new Map(files.filter(isFile).map((name) => [name, hashOf(name)]));
}

const WAYS: Readonly<Record<string, (segment: LastSegment, at: number) => void>> = {
  'cut off in the middle': ({ path }, at) => fs.truncateSync(path, at),
  'zeroed from the middle on': ({ path, bytes }, at) => fs.writeFileSync(path, bytes.fill(0, at)),
};

for (const [way, damage] of Object.entries(WAYS)) {
  test(`a log that is ${way} is refused with its position, and left as it is`, async () => {
    const folder = newFolder();
    const brain = await start(folder);
    await runJobs(brain, 10, 'ended');
    const killed = killedCopy(folder);
    await brain.stop();
    const segment = lastSegment(killed);
    const end = segment.frames[Math.floor(segment.frames.length / 2)] as number;
    damage(segment, end);
    const before = contents(killed);
    await assert.rejects(startAndStop(killed), ({ code, message, details }: never) => {
      assert.equal(code, 'STORE_CORRUPT');
      const text = message as string;
      assert.match(
        text,
        /ends with change \d+ \(log\/\d+\.log:\d+\), but the index of ended jobs has seen change \d+/,
      );
      assert.match(text, /orchd doctor DIR --salvage NEWDIR/);
      assert.match((details as { position: string }).position, new RegExp(`^log/\\d+\\.log:${end}$`));
      return true;
    });
    assert.deepEqual(contents(killed), before);
  });
}

test('after a salvage of such a log, what is acknowledged stays known over a kill -9', async () => {
  const folder = newFolder();
  const brain = await start(folder);
  await runJobs(brain, 10, 'ended');
  const killed = killedCopy(folder);
  await brain.stop();
  const segment = lastSegment(killed);
  fs.truncateSync(segment.path, segment.frames[2] as number);
  const { verdict, findings, salvage: plan } = await examine(new RealDisk(), killed);
  assert.equal(verdict, 'bad');
  const bad = findings.filter((finding) => finding.verdict === 'bad').map(({ check }) => check);
  assert.deepEqual(bad, ['history', 'start']);
  assert.ok((plan?.lost.missing ?? 0) > 0);
  const saved = newFolder();
  await salvage(new RealDisk(), killed, saved);
  const again = await start(saved);
  const ids = ['c-1', 'c-2', 'c-3', 'c-4', 'c-5'];
  for (const job_id of ids) {
    await again.submit({ job_id, payload: 1, not_before: Date.now() + 3_600_000 });
    await again.cancel(job_id);
  }
  const killedAgain = killedCopy(saved);
  await again.stop();
  const last = await start(killedAgain);
  for (const id of ids) assert.equal((await last.get(id)).state, 'cancelled');
  await last.stop();
  assert.equal((await examine(new RealDisk(), killedAgain)).verdict, 'ok');
});

test('jobs that have not ended are missed too after an orderly stop', async () => {
  const folder = newFolder();
  const brain = await start(folder);
  for (let n = 0; n < 5; n++) await brain.submit({ payload: n, not_before: Date.now() + 3_600_000 });
  await brain.stop();
  const { path, frames } = lastSegment(folder);
  fs.truncateSync(path, frames.at(-2) as number);
  await assert.rejects(startAndStop(folder), { code: 'STORE_CORRUPT' });
});

test('a folder whose log is gone is not taken for a new one', async () => {
  const folder = newFolder();
  const brain = await start(folder);
  await runJobs(brain, 3, 'ended');
  await brain.stop();
  fs.rmSync(join(folder, 'log'), { recursive: true });
  await assert.rejects(startAndStop(folder), { code: 'STORE_CORRUPT' });
});

test('a write that a power cut tore is cut without a word', async () => {
  const folder = newFolder();
  const brain = await start(folder);
  const ids = await runJobs(brain, 5, 'ended');
  const killed = killedCopy(folder);
  await brain.submit({ payload: 'not acknowledged', not_before: Date.now() + 3_600_000 });
  await brain.stop();
  const [whole, torn] = [lastSegment(folder), lastSegment(killed)];
  const end = torn.frames.at(-1) as number;
  torn.bytes.set(whole.bytes.subarray(end, end + 100), end);
  fs.writeFileSync(torn.path, torn.bytes);
  const { verdict, findings } = await examine(new RealDisk(), killed);
  assert.equal(verdict, 'ok', JSON.stringify(findings));
  assert.match(
    findings.find(({ check }) => check === 'log.tail')?.sentence ?? '',
    /as a power cut leaves it/,
  );
  logged = [];
  const again = await start(killed);
  for (const id of ids) assert.equal((await again.get(id)).state, 'succeeded');
  await again.stop();
  assert.deepEqual(logged, []);
});

/** Replaces the index of one stopped folder with that of another. */
function replaceIndex(folder: string, other: string): void {
  for (const suffix of ['', '-wal', '-shm'])
    fs.rmSync(join(folder, `history.sqlite${suffix}`), { force: true });
  fs.copyFileSync(join(other, 'history.sqlite'), join(folder, 'history.sqlite'));
}

test('the index of another data folder is refused, although it is not ahead', async () => {
  const [folder, other] = [newFolder(), newFolder()];
  for (const [data, count] of [
    [folder, 8],
    [other, 2],
  ] as const) {
    const brain = await start(data);
    await runJobs(brain, count, 'same');
    await brain.stop();
  }
  replaceIndex(folder, other);
  await assert.rejects(startAndStop(folder), {
    code: 'STORE_CORRUPT',
    message: /another data folder.*history\.sqlite/,
  });
  const { findings } = await examine(new RealDisk(), folder);
  assert.ok(findings.some(({ check, verdict }) => check === 'start' && verdict === 'bad'));
  fs.rmSync(join(folder, 'history.sqlite'));
  const brain = await start(folder);
  for (let n = 0; n < 8; n++) assert.equal((await brain.get(`same-${n}`)).state, 'succeeded');
  await brain.stop();
});

test('the index of another course of the same log is refused, although it is not ahead', async () => {
  const folder = newFolder();
  const brain = await start(folder);
  await runJobs(brain, 2, 'common');
  await brain.stop();
  const branch = killedCopy(folder);
  for (const [data, count] of [
    [folder, 8],
    [branch, 2],
  ] as const) {
    const again = await start(data);
    await runJobs(again, count, data === folder ? 'long' : 'short');
    await again.stop();
  }
  replaceIndex(folder, branch);
  await assert.rejects(startAndStop(folder), {
    code: 'STORE_CORRUPT',
    message: /another one.*history\.sqlite/,
  });
});

test('an index older than the checkpoint is made complete from the log, with a warning', async () => {
  const folder = newFolder();
  const brain = await start(folder);
  await runJobs(brain, 2, 'early');
  await brain.stop();
  const early = killedCopy(folder);
  const again = await start(folder);
  const ids = await runJobs(again, 5, 'late');
  await again.checkpoint();
  await again.stop();
  replaceIndex(folder, early);
  logged = [];
  const last = await start(folder);
  for (const id of [...ids, 'early-0']) assert.equal((await last.get(id)).state, 'succeeded', id);
  await last.stop();
  assert.match(logged.join(), /the index of ended jobs was older than the checkpoint/);
});

test('a log that ends before the newest checkpoint is refused, even where that checkpoint is damaged', async () => {
  const folder = newFolder();
  const brain = await start(folder);
  for (let round = 0; round < 2; round++) {
    for (let n = 0; n < 3; n++) await brain.submit({ payload: n, not_before: Date.now() + 3_600_000 });
    await brain.checkpoint();
  }
  await brain.stop();
  const { manifest } = JSON.parse(fs.readFileSync(join(folder, 'checkpoint.json'), 'utf8')) as {
    manifest: { parts: { name: string }[] };
  };
  for (const { name } of manifest.parts) fs.rmSync(join(folder, 'checkpoints', name));
  fs.rmSync(lastSegment(folder).path);
  const { path, frames } = lastSegment(folder);
  fs.truncateSync(path, frames.at(-2) as number);
  for (const suffix of ['', '-wal', '-shm'])
    fs.rmSync(join(folder, `history.sqlite${suffix}`), { force: true });
  await assert.rejects(startAndStop(folder), {
    code: 'STORE_CORRUPT',
    message: /but checkpoint\.json has seen change/,
  });
});
