/** The doctor on folders of real brains: the index of ended jobs, and a folder that is being written. */

import assert from 'node:assert/strict';
import {
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, test } from 'node:test';
import { copyFolder } from '../../../../test/fakes/copy-folder.ts';
import { engineOf } from '../../../../test/fakes/engine-of.ts';
import { isHeld } from '../../../cli/lock-probe.ts';
import { createOrchestrator, type Orchestrator } from '../../../index.ts';
import { RealDisk } from '../../../kit/env/real-disk.ts';
import { type Diagnosis, examine } from './doctor.ts';

const root = mkdtempSync(join(tmpdir(), 'orchd-doctor-'));
const original = join(root, 'original');
let copies = 0;

after(() => rmSync(root, { recursive: true, force: true }));

const start = (data: string): Promise<Orchestrator> =>
  createOrchestrator({
    data,
    backends: [
      {
        name: 'local',
        slots: 4,
        types: {
          inference: (payload: { big?: boolean; fails?: boolean }) => {
            if (payload.fails) throw Object.assign(new Error('no'), { retriable: false });
            return payload.big ? 'x'.repeat(6000) : 'small';
          },
        },
      },
    ],
  });

before(async () => {
  const brain = await start(original);
  const ids: string[] = [];
  for (let n = 0; n < 20; n++) {
    const payload = { n, big: n % 5 === 0, fails: n % 7 === 0 };
    ids.push((await brain.submit({ payload, key: `k${n}` })).job_id);
  }
  for (const id of ids) await brain.wait(id);
  while ((await brain.list({ limit: 100 })).jobs.length < 20) await turn();
  // Ended jobs leave memory once the index has them.
  while (engineOf(brain).state.jobs.size > 0) await turn();
  await brain.stop();
});

const turn = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 5));

function copy(): string {
  const folder = join(root, `copy-${++copies}`);
  copyFolder(original, folder, ['spare']);
  return folder;
}

const look = (folder: string): Promise<Diagnosis> => examine(new RealDisk(), folder, { isHeld });

async function finds(folder: string, verdict: string, sentence: RegExp): Promise<void> {
  const { findings } = await look(folder);
  const found = findings.filter((each) => each.check === 'history' && each.verdict === verdict);
  assert.ok(
    found.some((each) => sentence.test(each.sentence)),
    JSON.stringify(findings.filter((each) => each.verdict !== 'ok')),
  );
}

function contents(folder: string): Map<string, string> {
  // The folder itself is included: its mtime shows a file that was created and removed in between.
  const names = ['.', ...readdirSync(folder, { recursive: true, encoding: 'utf8' }).sort()];
  return new Map(
    names.map((name) => {
      const stat = statSync(join(folder, name));
      const bytes = stat.isFile() ? readFileSync(join(folder, name), 'hex') : '';
      return [name, `${stat.mtimeMs} ${bytes}`];
    }),
  );
}

/** Runs SQL on the index. */
function edit(folder: string, sql: string): void {
  const database = new DatabaseSync(join(folder, 'history.sqlite'));
  database.exec(sql);
  database.close();
}

test('the index agrees with the log, and the examination changes no byte and no mtime', async () => {
  const folder = copy();
  const earlier = contents(folder);
  const diagnosis = await look(folder);
  assert.equal(diagnosis.verdict, 'ok', JSON.stringify(diagnosis.findings));
  await finds(folder, 'ok', /^20 ended jobs, 20 of them compared/);
  assert.deepEqual(contents(folder), earlier);
});

test('an index without a write-ahead log is read the same way', async () => {
  const folder = copy();
  edit(folder, 'PRAGMA wal_checkpoint(TRUNCATE)');
  for (const suffix of ['-wal', '-shm']) rmSync(join(folder, `history.sqlite${suffix}`), { force: true });
  const earlier = contents(folder);
  await finds(folder, 'ok', /^20 ended jobs, 20 of them compared/);
  assert.deepEqual(contents(folder), earlier);
});

test('an index that SQLite could not read without writing is left alone', async () => {
  const folder = copy();
  writeFileSync(join(folder, 'history.sqlite-wal'), 'x'.repeat(100));
  rmSync(join(folder, 'history.sqlite-shm'), { force: true });
  const earlier = contents(folder);
  await finds(folder, 'warn', /without writing/);
  assert.deepEqual(contents(folder), earlier);
});

test('an index that is not a database is reported', async () => {
  const folder = copy();
  for (const suffix of ['-wal', '-shm']) rmSync(join(folder, `history.sqlite${suffix}`), { force: true });
  writeFileSync(join(folder, 'history.sqlite'), 'this is no database at all'.repeat(100));
  await finds(folder, 'bad', /cannot be read/);
});

test('a folder without an index is healthy', async () => {
  const folder = copy();
  for (const suffix of ['', '-wal', '-shm']) rmSync(join(folder, `history.sqlite${suffix}`), { force: true });
  await finds(folder, 'ok', /there is no index/);
});

test('an entry that differs from the log is reported', async () => {
  const folder = copy();
  edit(folder, `UPDATE jobs SET line = line || ' '`);
  assert.equal((await look(folder)).verdict, 'ok', 'a trailing space changes nothing');
  edit(folder, `UPDATE jobs SET line = replace(line, '"tries":1', '"tries":2') WHERE state = 'dead'`);
  await finds(folder, 'bad', /the index and the log differ/);
});

/** Changes the sequence number of one entry of the index, in the line that holds the whole job. */
function setSeq(folder: string, seq: number): void {
  const database = new DatabaseSync(join(folder, 'history.sqlite'));
  const { n, line } = database.prepare('SELECT n, line FROM jobs LIMIT 1').get() as {
    n: number;
    line: string;
  };
  database.prepare('UPDATE jobs SET line = ? WHERE n = ?').run(line.replace(/\t\d+\t/, `\t${seq}\t`), n);
  database.close();
}

test('an entry with another change number than the log is reported', async () => {
  const folder = copy();
  setSeq(folder, 1);
  await finds(folder, 'bad', /as of change \d+, the log as of \d+/);
});

test('an entry that is newer than the log as it was read is not compared, and not counted as compared', async () => {
  const folder = copy();
  setSeq(folder, 1_000_000);
  assert.equal((await look(folder)).verdict, 'ok');
  await finds(folder, 'ok', /^20 ended jobs, 19 of them compared/);
});

test('an entry whose later end is above the watermark is not compared, and not counted as compared', async () => {
  const folder = copy();
  setSeq(folder, 1);
  edit(folder, `UPDATE facts SET value = 0 WHERE name = 'watermark'`);
  assert.equal((await look(folder)).verdict, 'ok');
  await finds(folder, 'ok', /^20 ended jobs, 19 of them compared/);
});

test('a log that has lost its end is detected by the watermark of the index', async () => {
  const folder = copy();
  const log = join(folder, 'log');
  const segment = join(log, readdirSync(log).sort().at(-1) ?? '');
  // Only whole frames are left, so nothing in the log itself shows that some are missing.
  truncateSync(segment, 10 * 512);
  await finds(folder, 'bad', /the end of the log is missing/);
  for (const name of readdirSync(log)) rmSync(join(log, name));
  await finds(folder, 'bad', /the end of the log is missing/);
});

test('a missing body of an ended job is reported', async () => {
  const folder = copy();
  const [name] = readdirSync(join(folder, 'blobs'));
  rmSync(join(folder, 'blobs', name ?? ''));
  const { findings } = await look(folder);
  const missing = findings.filter(({ check, verdict }) => check === 'blobs' && verdict === 'bad');
  assert.equal(missing.length, 3, JSON.stringify(findings));
});

test('a folder that is written to at full speed is never reported as damaged', async () => {
  const folder = copy();
  const brain = await start(folder);
  let on = true;
  const load = (async () => {
    for (let n = 0; on; n++) {
      await brain.submitMany([{ payload: { n } }, { payload: { n, big: true } }]);
      if (n % 40 === 0) await brain.checkpoint();
    }
  })();
  try {
    for (let looks = 0; looks < 8; looks++) {
      const { inUse, findings } = await look(folder);
      assert.equal(inUse, true);
      assert.deepEqual(
        findings.filter(({ verdict }) => verdict === 'bad'),
        [],
      );
    }
  } finally {
    on = false;
    await load;
    await brain.stop();
  }
  const { findings } = await look(folder);
  assert.deepEqual(
    findings.filter(({ verdict }) => verdict !== 'ok'),
    [],
  );
});
