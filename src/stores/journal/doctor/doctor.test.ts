import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { crc32 } from 'node:zlib';
import { change, FolderMaker, JobScript, NOW } from '../../../../test/fakes/folder-maker.ts';
import type { MemoryDisk } from '../../../../test/fakes/memory-disk.ts';
import type { BlobRef } from '../../../model/body.ts';
import { errorInfo } from '../../../model/errors.ts';
import type { JobRecord } from '../../../model/records.ts';
import { readManifest, writeManifest } from '../checkpoint/manifest.ts';
import { blobName, segmentName } from '../layout.ts';
import { SECTOR_BYTES } from '../log/frame.ts';
import { readWhole } from '../log/segments.ts';
import { type Diagnosis, examine } from './doctor.ts';
import { CHECKS, type CheckId } from './report.ts';

interface Folder {
  readonly maker: FolderMaker;
  readonly disk: MemoryDisk;
  readonly blob: BlobRef;
  readonly running: JobScript;
  readonly waiting: JobScript;
}

const BODY = JSON.stringify('x'.repeat(5000));

/** Two checkpoints and a log after them, with jobs in several states, and one blob. */
async function makeFolder(): Promise<Folder> {
  const maker = await FolderMaker.make();
  const disk = maker.disk as MemoryDisk;
  const blob = { file: 1, offset: 0, bytes: Buffer.byteLength(BODY), crc: crc32(BODY) };
  disk.files.set(join(maker.paths.blobs, blobName(1)), Buffer.from(BODY));
  const [done, retried, dead, gone, waiting, running] = [
    'done',
    'retried',
    'dead',
    'gone',
    'waiting',
    'running',
  ].map((id) => new JobScript(id)) as [JobScript, JobScript, JobScript, JobScript, JobScript, JobScript];
  await maker.add(...done.ask(maker.next, { key: 'k1' }), ...done.claim(), ...done.start());
  await maker.add(...retried.ask(maker.next, { payload: blob }), ...retried.claim(), ...retried.start());
  await maker.checkpoint();
  await maker.add(...done.succeed(), ...retried.fail('retry'));
  await maker.add(
    ...dead.ask(maker.next, { key: 'k2' }),
    ...dead.claim(),
    ...dead.start(),
    ...dead.fail('die'),
  );
  await maker.checkpoint();
  await maker.add(...gone.ask(maker.next, { key: 'k3' }), ...gone.cancel());
  await maker.add(...waiting.ask(maker.next, { key: 'k3', not_before: NOW + 1 }));
  await maker.add(...running.ask(maker.next), ...running.claim(), ...running.start());
  await maker.preallocate(3 * SECTOR_BYTES);
  return { maker, disk, blob, running, waiting };
}

const look = ({ maker }: Folder): Promise<Diagnosis> => examine(maker.disk, '/data');

const badOnes = ({ findings }: Diagnosis): string[] => [
  ...new Set(findings.filter(({ verdict }) => verdict === 'bad').map(({ check }) => check)),
];

/** Asserts that this check reports damage with this sentence and position. */
async function finds(
  folder: Folder,
  check: CheckId,
  sentence: RegExp,
  position?: string,
): Promise<Diagnosis> {
  const diagnosis = await look(folder);
  const found = diagnosis.findings.filter((each) => each.check === check && each.verdict === 'bad');
  const match = found.find((each) => sentence.test(each.sentence));
  assert.ok(match, `no ${check} like ${sentence} in ${JSON.stringify(diagnosis.findings, null, 1)}`);
  if (position !== undefined) assert.equal(match.position, position);
  assert.equal(diagnosis.verdict, 'bad');
  return diagnosis;
}

const bytesOf = ({ disk }: Folder, path: string): Buffer => {
  const bytes = disk.files.get(path);
  assert.ok(bytes, `${path} is missing`);
  return bytes;
};

const flip = (bytes: Buffer, at: number): void => {
  bytes[at] = (bytes[at] as number) ^ 1;
};

test('a healthy folder is found healthy by every check', async () => {
  const folder = await makeFolder();
  const before = new Map([...folder.disk.files].map(([path, bytes]) => [path, Buffer.from(bytes)]));
  const diagnosis = await look(folder);
  assert.equal(diagnosis.verdict, 'ok', JSON.stringify(diagnosis.findings));
  assert.deepEqual([...new Set(diagnosis.findings.map(({ check }) => check))], Object.keys(CHECKS));
  const { jobs } = diagnosis.facts;
  const ended = [jobs?.succeeded, jobs?.dead, jobs?.cancelled];
  assert.deepEqual([jobs?.queued, jobs?.running, ...ended], [2, 1, 1, 1, 1]);
  assert.deepEqual(diagnosis.salvage?.lost, { changes: 0, bytes: 0, missing: 0, ended: 0, bodies: 0 });
  assert.deepEqual([...folder.disk.files], [...before], 'nothing was written');
});

describe('the folder itself', () => {
  test('a missing folder, a file and a folder of something else get different sentences', async () => {
    const { maker, disk } = await makeFolder();
    await disk.makeFolder('/other');
    for (const [path, sentence] of [
      ['/nowhere', /no such folder/],
      [maker.segment, /a file, not a folder/],
      ['/other', /not a data folder/],
    ] as const) {
      const { isDataFolder, findings } = await examine(disk, path);
      assert.equal(isDataFolder, false);
      assert.equal(findings.length, 1);
      assert.match(findings[0]?.sentence ?? '', sentence);
    }
  });

  test('a new, empty data folder is healthy', async () => {
    const { disk } = await FolderMaker.make();
    assert.equal((await examine(disk, '/data')).verdict, 'ok');
  });

  test('a checkpoint of a newer format is named, and nothing is offered for salvage', async () => {
    const folder = await makeFolder();
    const { maker } = folder;
    await writeManifest(maker.disk, maker.paths, { ...maker.manifest, format: 2 });
    const diagnosis = await finds(folder, 'format', /format 2/, 'checkpoint.json');
    assert.equal(diagnosis.salvage, undefined);
  });

  test('a record of a newer version is named with its place', async () => {
    const folder = await makeFolder();
    const { maker, waiting } = folder;
    const at = maker.position;
    await maker.addText(`${JSON.stringify(['job', waiting.uid, { ...waiting.job, v: 3 }, 'x'])}\n`, 1);
    const { salvage } = await finds(
      folder,
      'format',
      /version 3/,
      `log/${segmentName(segmentOf(maker))}:${at}`,
    );
    assert.equal(salvage, undefined);
  });

  test('a folder in use is reported as such and is still examined', async () => {
    const folder = await makeFolder();
    const lock = await folder.disk.lock(folder.maker.paths.lock);
    const diagnosis = await look(folder);
    assert.deepEqual([diagnosis.inUse, diagnosis.verdict], [true, 'warn']);
    await lock?.release();
    assert.equal((await look(folder)).inUse, false);
  });

  test('damage at the tail of a folder in use is called a possible write in flight', async () => {
    const folder = await makeFolder();
    const lock = await folder.disk.lock(folder.maker.paths.lock);
    flip(bytesOf(folder, folder.maker.segment), folder.maker.position - SECTOR_BYTES + 60);
    const { verdict, findings } = await look(folder);
    assert.equal(verdict, 'warn');
    assert.ok(findings.some(({ sentence }) => sentence.includes('may be a write in flight')));
    await lock?.release();
    assert.equal((await look(folder)).verdict, 'bad');
  });

  test('files that nothing needs are listed and do no harm', async () => {
    const folder = await makeFolder();
    const { paths } = folder.maker;
    const extra = [
      paths.spare,
      join(paths.parts, '0000000000000099-0.part'),
      join(paths.folder, 'notes.txt'),
    ];
    for (const path of [...extra, join(paths.blobs, blobName(7))])
      folder.disk.files.set(path, Buffer.alloc(9));
    const { verdict, findings } = await look(folder);
    assert.equal(verdict, 'ok');
    assert.deepEqual(
      findings.filter(({ check }) => check === 'files').map(({ position }) => position),
      ['checkpoints/0000000000000099-0.part', 'log/spare', `blobs/${blobName(7)}`, 'notes.txt'],
    );
  });
});

/** The sequence in the name of the current segment. */
const segmentOf = (maker: FolderMaker): number => Number(/(\d+)\.log$/.exec(maker.segment)?.[1]);

describe('checkpoints', () => {
  const partOf = async ({ maker }: Folder, manifest: string): Promise<string> => {
    const parts = (await readManifest(maker.disk, manifest))?.parts ?? [];
    return join(maker.paths.parts, parts[0]?.name ?? '');
  };

  test('a damaged manifest', async () => {
    const folder = await makeFolder();
    flip(bytesOf(folder, folder.maker.paths.manifest), 30);
    const diagnosis = await finds(
      folder,
      'checkpoint',
      /checkpoint.json does not match/,
      'checkpoint.json:0',
    );
    assert.match(sentencesOf(diagnosis, 'start'), /starts from the previous checkpoint/);
  });

  test('a damaged part', async () => {
    const folder = await makeFolder();
    const part = await partOf(folder, folder.maker.paths.manifest);
    flip(bytesOf(folder, part), 10);
    const diagnosis = await finds(folder, 'checkpoint', /does not match its checksum/);
    assert.deepEqual(badOnes(diagnosis), ['checkpoint']);
    assert.equal(diagnosis.salvage?.base, 'checkpoint.previous');
    assert.equal(diagnosis.salvage?.lost.bytes, 0);
  });

  test('a missing part', async () => {
    const folder = await makeFolder();
    await folder.disk.remove(await partOf(folder, folder.maker.paths.manifest));
    await finds(folder, 'checkpoint', /is missing, although checkpoint.json lists it/);
  });

  test('a previous generation that could not be used', async () => {
    const folder = await makeFolder();
    await folder.disk.remove(await partOf(folder, folder.maker.paths.previousManifest));
    assert.deepEqual(badOnes(await look(folder)), ['checkpoint.previous']);

    const other = await makeFolder();
    const { seq } = (await readManifest(other.disk, other.maker.paths.previousManifest)) ?? { seq: 0 };
    flip(bytesOf(other, join(other.maker.paths.log, segmentName(seq + 1))), 60);
    await finds(other, 'checkpoint.previous', /the log after it is damaged/);
  });

  test('both generations: orchd would not start, and the log from its beginning is offered', async () => {
    const folder = await makeFolder();
    flip(bytesOf(folder, folder.maker.paths.manifest), 30);
    flip(bytesOf(folder, folder.maker.paths.previousManifest), 30);
    const diagnosis = await finds(folder, 'start', /refuses to start/, 'checkpoint.json:0');
    assert.equal(diagnosis.salvage?.base, 'log');
    assert.equal(diagnosis.salvage?.upTo, folder.maker.next - 1);
  });

  test('a checkpoint whose records differ from the log', async () => {
    const folder = await makeFolder();
    const { paths, manifest } = folder.maker;
    const [part] = manifest.parts;
    const path = join(paths.parts, part?.name ?? '');
    const text = bytesOf(folder, path).toString().replace('"state":"queued"', '"state":"stale"');
    const bytes = Buffer.from(text);
    folder.disk.files.set(path, bytes);
    const changed = { ...part, bytes: bytes.length, crc: crc32(bytes) };
    const parts = [changed as NonNullable<typeof part>, ...manifest.parts.slice(1)];
    const previous = bytesOf(folder, paths.previousManifest);
    await writeManifest(folder.disk, paths, { ...manifest, parts });
    folder.disk.files.set(paths.previousManifest, previous);
    await finds(folder, 'replay', /queued .* by the log, stale .* in the checkpoint/);
    await finds(folder, 'replay', /gives another state/);
  });
});

test('failure cache entries that expired before a checkpoint are ignored, others are compared', async () => {
  const until = (at: number) => ({ v: 1 as const, until: at, error: errorInfo('EXECUTION_FAILED') });
  const folder = await makeFolder();
  const { maker } = folder;
  await maker.add(change('failure', 'short', until(NOW + 5)), change('failure', 'long', until(NOW + 1000)));
  maker.at = NOW + 10;
  await maker.add(change('failure', 'later', until(NOW + 1000)));
  await maker.checkpoint();
  assert.equal((await look(folder)).verdict, 'ok');
  const part = join(maker.paths.parts, maker.manifest.parts.at(-1)?.name ?? '');
  const bytes = Buffer.from(
    bytesOf(folder, part)
      .toString()
      .replace(`${NOW + 1000}`, `${NOW + 2000}`),
  );
  folder.disk.files.set(part, bytes);
  const parts = maker.manifest.parts.map((each) => ({
    ...each,
    crc: crc32(bytesOf(folder, join(maker.paths.parts, each.name))),
  }));
  await writeManifest(folder.disk, maker.paths, { ...maker.manifest, parts });
  await finds(folder, 'replay', /gives another state/);
});

const sentencesOf = ({ findings }: Diagnosis, check: CheckId): string =>
  findings
    .filter((finding) => finding.check === check)
    .map(({ sentence }) => sentence)
    .join('; ');

describe('the log', () => {
  test('a flipped bit, with the readable changes after it', async () => {
    const folder = await makeFolder();
    const { maker } = folder;
    flip(bytesOf(folder, maker.segment), 60);
    const name = segmentName(segmentOf(maker));
    const { salvage } = await finds(folder, 'log.frames', /does not match its checksum/, `log/${name}:0`);
    assert.deepEqual([salvage?.base, salvage?.upTo], ['checkpoint', maker.manifest.seq]);
    assert.equal(salvage?.position, `log/${name}:0`);
    assert.ok((salvage?.lost.changes ?? 0) >= 4, 'two frames after it can still be read');
  });

  test('a hole', async () => {
    const folder = await makeFolder();
    bytesOf(folder, folder.maker.segment).fill(0, 0, SECTOR_BYTES);
    await finds(folder, 'log.frames', /but a frame follows/);
  });

  test('a torn tail is fine', async () => {
    const folder = await makeFolder();
    const { maker } = folder;
    bytesOf(folder, maker.segment).fill(0, maker.position - 400);
    const diagnosis = await look(folder);
    assert.equal(diagnosis.verdict, 'ok');
    assert.match(
      sentencesOf(diagnosis, 'log.tail'),
      /incomplete .* as a power cut leaves it; nothing shows that it was acknowledged/,
    );
  });

  test('a torn frame anywhere else is not', async () => {
    const folder = await makeFolder();
    const path = join(folder.maker.paths.log, segmentName(1));
    const bytes = bytesOf(folder, path);
    bytes.fill(0, bytes.length - 400);
    await finds(folder, 'log.frames', /no end|not written|stops/);
  });

  test('a missing segment in the middle, and the missing one after the checkpoint', async () => {
    const folder = await makeFolder();
    const { seq } = (await readManifest(folder.disk, folder.maker.paths.previousManifest)) ?? { seq: 0 };
    await folder.disk.remove(join(folder.maker.paths.log, segmentName(seq + 1)));
    await finds(folder, 'log.order', /are missing before this segment/);
    await finds(folder, 'checkpoint.previous', /the log after change .* is missing/);

    const other = await makeFolder();
    await other.disk.remove(other.maker.segment);
    await finds(other, 'log.order', /the log after change .* is missing/);
    await finds(other, 'start', /is missing/);
  });

  test('two segments with swapped names', async () => {
    const folder = await makeFolder();
    const { disk, maker } = folder;
    const first = join(maker.paths.log, segmentName(1));
    await disk.rename(first, '/data/log/x');
    await disk.rename(maker.segment, first);
    await disk.rename('/data/log/x', maker.segment);
    await finds(folder, 'log.order', /was expected/, `log/${segmentName(1)}:0`);
  });

  test('a frame that does not follow the one before it', async () => {
    for (const roll of [false, true]) {
      const folder = await makeFolder();
      if (roll) await folder.maker.roll();
      folder.maker.chain = (folder.maker.chain ^ 1) >>> 0;
      await folder.maker.add(...folder.waiting.cancel());
      await finds(folder, 'log.chain', /does not follow/);
    }
  });

  test('an epoch that falls', async () => {
    for (const roll of [false, true]) {
      const folder = await makeFolder();
      if (roll) await folder.maker.roll();
      folder.maker.epoch = 0;
      await folder.maker.add(...folder.waiting.cancel());
      await finds(folder, 'log.epoch', /epoch 0/);
    }
  });

  test('a change that cannot be read', async () => {
    for (const text of ['this is no JSON\n', '["ask","x",{"v":1},"two\\nlines"]\n["job"', '[1]\n[2]\n']) {
      const folder = await makeFolder();
      await folder.maker.addText(text, 1);
      const { salvage } = await finds(folder, 'records', /./);
      assert.equal(salvage?.upTo, folder.maker.next - 2);
    }
  });
});

describe('the changes', () => {
  const move = (script: JobScript, fields: Partial<JobRecord>) =>
    change('job', script.uid, { ...script.job, ...fields });

  test('an illegal move of a job', async () => {
    const folder = await makeFolder();
    await folder.maker.add(move(folder.waiting, { state: 'succeeded', endedAt: NOW }));
    await finds(folder, 'moves', /"waiting" moved from queued to succeeded/, placeOf(folder.maker));
  });

  test('a change to a job that has ended', async () => {
    const folder = await makeFolder();
    await folder.maker.add(...folder.waiting.cancel());
    await folder.maker.add(move(folder.waiting, {}));
    await finds(folder, 'moves', /from cancelled to cancelled/);
  });

  test('an illegal move of an attempt, and a change to one that has ended', async () => {
    const folder = await makeFolder();
    const { attempt } = folder.running;
    assert.ok(attempt);
    await folder.maker.add(change('attempt', 'running:1', { ...attempt, state: 'abandoned' }));
    await finds(folder, 'moves', /running:1 moved from accepted to abandoned/);
    await folder.maker.add(change('attempt', 'running:1', { ...attempt, state: 'abandoned' }));
    await finds(folder, 'moves', /running:1 moved from abandoned to abandoned/);
  });

  test('an attempt number that repeats or goes back', async () => {
    const folder = await makeFolder();
    await folder.maker.add(...folder.running.fail('retry'));
    await folder.maker.add(...folder.running.claim(1));
    await finds(folder, 'attempts', /claimed as attempt 1, but attempt 1 already exists/);

    const other = await makeFolder();
    await other.maker.add(...other.running.fail('retry'));
    await other.maker.add(move(other.running, { attempt: 0 }));
    await finds(other, 'attempts', /went back from attempt 1 to 0/);
  });

  test('two open attempts of one job', async () => {
    const folder = await makeFolder();
    const { attempt } = folder.running;
    assert.ok(attempt);
    await folder.maker.add(change('attempt', 'running:2', { ...attempt, n: 2, state: 'intended' }));
    await finds(folder, 'attempts', /running:2 began while attempt 1 was open/);
  });

  test('a token that changes its backend', async () => {
    const folder = await makeFolder();
    const { attempt } = folder.running;
    assert.ok(attempt);
    await folder.maker.add(change('attempt', 'running:1', { ...attempt, backend: 'other' }));
    await finds(folder, 'attempts', /from backend "b1" to "other"/);
  });

  test('a key that two live jobs have', async () => {
    const folder = await makeFolder();
    await folder.maker.add(...new JobScript('second').ask(folder.maker.next, { key: 'k3' }));
    await finds(folder, 'keys', /"second" and "waiting" were alive at once with the key "k3"/);
    const other = await makeFolder();
    const elsewhere = { key: 'k3', tenant: 'other' };
    await other.maker.add(...new JobScript('other~second').ask(other.maker.next, elsewhere));
    assert.equal((await look(other)).verdict, 'ok', 'another tenant may have the same key');
  });

  test('an attempt or a change without its job', async () => {
    const folder = await makeFolder();
    const ghost = new JobScript('ghost');
    ghost.ask(1);
    const [claimed, intended] = ghost.claim();
    assert.ok(claimed && intended);
    await folder.maker.add(intended);
    await finds(folder, 'jobs', /attempt 1 belongs to "ghost", which does not exist/);
    await folder.maker.add(claimed);
    await finds(folder, 'jobs', /a change to "ghost", which does not exist/);
  });

  test('an ended job without an end time, and a live one with one', async () => {
    const folder = await makeFolder();
    await folder.maker.add(move(folder.waiting, { state: 'cancelled' }));
    await finds(folder, 'jobs', /"waiting" is cancelled, but has no end time/);
    const other = await makeFolder();
    await other.maker.add(move(other.waiting, { endedAt: NOW }));
    await finds(other, 'jobs', /"waiting" is queued, but has an end time/);
  });

  test('a job that waits while its attempt is open, and one that runs without any', async () => {
    const folder = await makeFolder();
    const { attempt } = folder.running;
    assert.ok(attempt);
    await folder.maker.add(
      move(folder.running, { state: 'failed' }),
      move(folder.running, { state: 'queued' }),
    );
    await finds(folder, 'jobs', /"running" is queued while its attempt 1 is still open/);
    const other = await makeFolder();
    const ended = { ...attempt, state: 'ended' as const, outcome: 'failed' as const };
    await other.maker.add(change('attempt', 'running:1', ended));
    await finds(other, 'jobs', /"running" is running without an open attempt/);
  });

  test('an illegal move is found even if the first log segment is gone', async () => {
    const folder = await makeFolder();
    await folder.disk.remove(join(folder.maker.paths.log, segmentName(1)));
    assert.equal((await look(folder)).verdict, 'ok');
    await folder.maker.add(move(folder.waiting, { state: 'running' }));
    await finds(folder, 'moves', /from queued to running/);
  });

  test('a fault that repeats is counted, not listed without end', async () => {
    const folder = await makeFolder();
    const ghosts = Array.from({ length: 50 }, (_, at) => change('job', `ghost-${at}`, folder.waiting.job));
    await folder.maker.add(...ghosts);
    const { findings } = await look(folder);
    assert.equal(findings.filter(({ check }) => check === 'jobs').length, 21);
    assert.ok(findings.some(({ sentence }) => sentence === 'and 30 more of this kind'));
  });
});

/** The position of the last frame. */
const placeOf = (maker: FolderMaker): string =>
  `log/${segmentName(segmentOf(maker))}:${maker.position - SECTOR_BYTES}`;

describe('bodies', () => {
  test('a flipped bit in a blob', async () => {
    const folder = await makeFolder();
    const path = join(folder.maker.paths.blobs, blobName(1));
    flip(bytesOf(folder, path), 99);
    const place = `blobs/${blobName(1)}:0`;
    const diagnosis = await finds(folder, 'blobs', /the payload of "retried" does not match/, place);
    assert.deepEqual(badOnes(diagnosis), ['blobs'], 'and nothing else is wrong');
  });

  test('a blob that is missing or too short', async () => {
    const folder = await makeFolder();
    const path = join(folder.maker.paths.blobs, blobName(1));
    folder.disk.files.set(path, bytesOf(folder, path).subarray(0, 100));
    await finds(folder, 'blobs', /the payload of "retried" is missing/);
    await folder.disk.remove(path);
    await finds(folder, 'blobs', /the payload of "retried" is missing/);
  });
});

test('every sampled bit flip in the log is reported as bad, and as a reason why orchd would not start', async () => {
  const folder = await makeFolder();
  const path = folder.maker.segment;
  const whole = await readWhole(folder.disk, path);
  for (let bit = 0; bit < folder.maker.position * 8; bit += 37) {
    const bytes = Buffer.from(whole);
    bytes[bit >> 3] = (bytes[bit >> 3] as number) ^ (1 << (bit & 7));
    folder.disk.files.set(path, bytes);
    const diagnosis = await look(folder);
    assert.ok(badOnes(diagnosis).includes('start'), `bit ${bit}`);
    assert.ok(
      badOnes(diagnosis).some((check) => check.startsWith('log.')),
      `bit ${bit}`,
    );
  }
});
