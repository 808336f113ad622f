/**
 * Snapshot + delta log. Time is virtual, the disk is real, and its book says what was written when.
 * `ORCHD_RECORDS_MIB=1024` makes the last test hold all of its GiB in records, which takes about a minute.
 */

import assert from 'node:assert/strict';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { runtimeSettings } from '../../src/app/settings.ts';
import { loadConfig } from '../../src/config/load.ts';
import type { Store } from '../../src/core/ports/store.ts';
import type { Env } from '../../src/kit/env/env.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import type { BlobRef } from '../../src/model/body.ts';
import type { Change } from '../../src/model/records.ts';
import { Orchestrator } from '../../src/runtime/orchestrator.ts';
import { Opened } from '../../src/stores/conformance/opened.ts';
import { InlineBackground } from '../../src/stores/journal/background.ts';
import { SqliteHistory } from '../../src/stores/journal/history/sqlite.ts';
import { JournalStore } from '../../src/stores/journal/journal.ts';
import { decodeChanges, encodeChange } from '../../src/stores/journal/log/codec.ts';
import { listSegments, readLog } from '../../src/stores/journal/log/segments.ts';
import { ThreadBackground } from '../../src/stores/journal/thread.ts';
import { tempFolder } from './flow-kit.ts';
import { bytesWrittenByProcess, type DiskOp, RecordingDisk } from './recording-disk.ts';
import { Stage } from './stage.ts';
import { VirtualEnv } from './virtual-env.ts';

const MIB = 2 ** 20;
const SECOND = 1000;
const MINUTE = 60 * SECOND;

const config = loadConfig({
  text: 'orchestrator: {queue_capacity: 1000000, queue: {capacity_bytes: 1099511627776}}',
});

/** `inline`: every write goes through the disk that is given, also those of checkpoints. */
type Where = 'thread' | 'inline';

function journal(env: Env, folder: string, where: Where = 'thread'): JournalStore {
  return new JournalStore(env, {
    folder,
    checkpointIntervalMs: config.state.checkpointIntervalMs,
    ...config.retention,
    background: (paths) =>
      where === 'thread'
        ? new ThreadBackground(paths, env.timers)
        : new InlineBackground(env.disk, paths, new SqliteHistory(paths.history, 'write')),
  });
}

/** A store that counts the bytes of the changes it is given. */
class CountedStore {
  bytesChanged = 0;
  readonly changes: Change[] = [];
  readonly store: Store;

  constructor(store: JournalStore) {
    const append = store.append.bind(store);
    store.append = (changes, now) => {
      for (const change of changes) {
        this.bytesChanged += Buffer.byteLength(encodeChange(change));
        this.changes.push(change);
      }
      return append(changes, now);
    };
    this.store = store;
  }
}

interface Brain {
  readonly virtual: VirtualEnv;
  readonly recording: RecordingDisk;
  readonly counted: CountedStore;
  readonly stage: Stage;
  readonly orchestrator: Orchestrator;
  readonly folder: string;
}

async function begin(t: TestContext, where: Where = 'thread'): Promise<Brain> {
  const virtual = new VirtualEnv();
  const recording = new RecordingDisk(() => virtual.now);
  const env = virtual.env(recording.disk);
  const folder = tempFolder(t);
  const counted = new CountedStore(journal(env, folder, where));
  const stage = new Stage({ types: ['run'], slots: 1000 });
  const settings = runtimeSettings(config);
  const orchestrator = new Orchestrator({ env, store: counted.store, backends: [stage], settings });
  t.after(() => orchestrator.stop());
  await orchestrator.start();
  return { virtual, recording, counted, stage, orchestrator, folder };
}

/** Waiting jobs with bodies of 4,000 characters: records, all of them in every full snapshot. */
async function fill({ orchestrator, virtual }: Brain, bytes: number): Promise<string[]> {
  const count = Math.ceil(bytes / 4096);
  const ids: string[] = [];
  for (let n = 0; n < count; n += 500) {
    const size = Math.min(500, count - n);
    const requests = Array.from({ length: size }, (_, at) => ({ payload: String(n + at).padEnd(4000, 'x') }));
    for (const answer of await virtual.until(orchestrator.submitMany(requests)))
      if (!(answer instanceof Error)) ids.push(answer.job_id);
  }
  return ids;
}

/**
 * Checkpoints all that has happened so far. The first call may join a checkpoint that is being made, without the
 * last changes; the second one makes another, or has nothing to do.
 */
async function checkpoint({ orchestrator, virtual }: Brain): Promise<void> {
  for (let calls = 0; calls < 2; calls++) await virtual.until(orchestrator.checkpoint());
}

/** Runs one job from its submit to its end: about a kilobyte of changes. */
async function runOne({ orchestrator, stage, virtual }: Brain): Promise<void> {
  const { job_id } = await virtual.until(orchestrator.submit({ type: 'run', payload: 'x'.repeat(450) }));
  await stage.until(() => stage.runningTokens.includes(`${job_id}:1`));
  stage.end(`${job_id}:1`);
  await virtual.until(orchestrator.wait(job_id));
}

const filesOf = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((path) => join(folder, path))
    .filter((path) => statSync(path).isFile())
    .map((path) => `${path} ${statSync(path).size} ${statSync(path).mtimeMs}`);

describe('[FANO-8] snapshot and delta log', () => {
  test('the log holds the changes and nothing else, however large what they belong to is', async (t) => {
    const brain = await begin(t);
    const { orchestrator, stage, counted, folder } = brain;
    await orchestrator.submit({ job_id: 'large', type: 'run', payload: 'L'.repeat(5 * MIB) });
    await stage.startedCount(1);
    stage.end('large:1', { ok: true, resultText: JSON.stringify('R'.repeat(5 * MIB)) });
    const waiting = orchestrator.wait('large');
    await brain.virtual.pass(0);
    await waiting;
    await orchestrator.submit({ job_id: 'small', type: 'waits' });
    await orchestrator.cancel('small');
    await orchestrator.stop();
    const logged: Change[] = [];
    const { disk } = realEnv();
    const log = join(folder, 'log');
    await readLog(disk, log, { nextSeq: 1, chain: 0 }, ({ header, payload }) => {
      logged.push(...decodeChanges(payload, header.count));
    });
    assert.deepEqual(logged, counted.changes);
    assert.ok(counted.bytesChanged < 10_000, `${counted.bytesChanged} bytes for two jobs`);
    for (const { name } of await listSegments(disk, log)) {
      assert.equal(readFileSync(join(log, name)).includes('LLLLLLLL'), false, 'no body is in the log');
    }
  });

  test('nothing is written when nothing has changed', async (t) => {
    const brain = await begin(t);
    await fill(brain, MIB);
    await runOne(brain);
    await checkpoint(brain);
    await brain.virtual.pass(2 * MINUTE);
    const before = brain.recording.ops.length;
    const files = filesOf(brain.folder);
    const bytes = bytesWrittenByProcess();
    await brain.virtual.pass(30 * MINUTE);
    assert.deepEqual(brain.recording.ops.slice(before), []);
    assert.deepEqual(filesOf(brain.folder), files, 'no file was touched, by whomever');
    // Wake-ups between threads count as written bytes too, a few each.
    if (bytes !== undefined) assert.ok(bytesWrittenByProcess()! - bytes < 256 * 1024);
  });

  test('checkpoints come at most every interval: tmp, sync, rename, and the parts before the manifest', async (t) => {
    const brain = await begin(t, 'inline');
    const { recording, virtual, folder } = brain;
    for (let half = 0; half < 20; half++) {
      await fill(brain, 2 * MIB);
      await virtual.pass(30 * SECOND);
      await recording.rest();
    }
    const manifest = join(folder, 'checkpoint.json');
    const made = recording.ops.filter(({ op, to }) => op === 'rename' && to === manifest);
    assert.ok(made.length >= 2 && made.length <= 10, `${made.length} checkpoints in 10 minutes`);
    for (const [n, { at }] of made.entries()) {
      if (n > 0) assert.ok(at - made[n - 1]!.at >= MINUTE, 'at least an interval apart');
    }
    for (const rename of made)
      assertSafeRename(recording, rename.path, recording.ops.indexOf(rename), folder);
  });

  test('100 MB of history, 1 KB/s of changes for 10 minutes: at most 20 times the changes and one snapshot', async (t) => {
    const brain = await begin(t);
    const { virtual, recording, counted, folder } = brain;
    const history = await fill(brain, 100 * MIB);
    await checkpoint(brain);
    const parts = readdirSync(join(folder, 'checkpoints')).map((name) =>
      statSync(join(folder, 'checkpoints', name)),
    );
    const snapshot = parts.reduce((sum, { size }) => sum + size, 0);
    assert.ok(snapshot >= 100 * MIB, 'the history is in the snapshot');
    const before = {
      disk: recording.bytesWritten,
      process: bytesWrittenByProcess(),
      changed: counted.bytesChanged,
    };
    for (let second = 0; second < 600; second += 2) {
      await runOne(brain);
      // Not only new jobs change: each minute some do in every part of the snapshot.
      const old = history[(second * 1009) % history.length];
      if (second % 10 === 0 && old !== undefined) await virtual.until(brain.orchestrator.cancel(old));
      await virtual.pass(2 * SECOND);
    }
    const changed = counted.bytesChanged - before.changed;
    assert.ok(changed > 550_000 && changed < 700_000, `${changed} bytes in 600 s`);
    const allowed = 20 * changed + snapshot;
    const written = recording.bytesWritten - before.disk;
    const byProcess = before.process === undefined ? undefined : bytesWrittenByProcess()! - before.process;
    t.diagnostic(
      `changed ${changed}, log and checkpoints ${written}, whole process ${byProcess}, allowed ${allowed}`,
    );
    assert.ok(written <= allowed);
    // The index of ended jobs writes past the disk of the log: the process as a whole counts.
    if (byProcess !== undefined) assert.ok(byProcess <= allowed, `${byProcess} of ${allowed} bytes`);
  });

  test('1 GiB of state: checkpointed, changed, checkpointed again, and there after a restart', async (t) => {
    const records = Number(process.env['ORCHD_RECORDS_MIB'] ?? 96);
    await holdsState(t, records, 1024 - records);
  });
});

/** Written, synced, then renamed; before that the parts, written and synced; after that the folder, before anything old goes. */
function assertSafeRename({ ops }: RecordingDisk, temporary: string, renamed: number, folder: string): void {
  assert.equal(basename(temporary), 'checkpoint.tmp');
  const last = (op: DiskOp['op'], path: string): number =>
    ops.slice(0, renamed).findLastIndex((each) => each.op === op && each.path === path);
  const begun = last('create', temporary);
  assert.ok(begun < last('write', temporary) && last('write', temporary) < last('sync', temporary));
  const parts = join(folder, 'checkpoints');
  const written = ops.slice(0, begun).filter(({ op, path }) => op === 'write' && dirname(path) === parts);
  for (const { path } of written) assert.ok(last('write', path) < last('sync', path), `${path} was synced`);
  assert.ok(last('sync folder', parts) > ops.indexOf(written.at(-1)!), 'their names too');
  const next = (op: DiskOp['op'], path: string): number =>
    ops.findIndex((each, at) => at > renamed && each.op === op && each.path.startsWith(path));
  const synced = next('sync folder', folder);
  const removed = next('remove', parts);
  assert.ok(
    synced > renamed && (removed < 0 || synced < removed),
    'the rename is durable before old parts go',
  );
}

/** Live jobs with inline bodies, and jobs whose bodies lie outside: together so many MiB. */
async function holdsState(t: TestContext, recordsMib: number, bodiesMib: number): Promise<void> {
  const folder = tempFolder(t);
  const settings = { queueCapacity: 10_000_000, queueBytes: 2 ** 40 };
  const open = async (): Promise<Opened> => {
    const made = new Opened(journal(realEnv(), folder), settings);
    t.after(() => made.store.close());
    await made.open();
    return made;
  };
  let opened = await open();
  const count = recordsMib * 256;
  for (let n = 0; n < count; n++) {
    const payload = JSON.stringify(String(n).padEnd(4094, 'x'));
    opened.submit(`j${n}`, { payload, payloadBytes: payload.length, type: 'waits' });
    if (n % 512 === 511) await opened.settled();
  }
  const body = (n: number): string => String(n).padEnd(MIB, 'y');
  for (let n = 0; n < bodiesMib; n++) {
    const payload: BlobRef = await opened.store.putBlob(body(n));
    opened.submit(`b${n}`, { payload, payloadBytes: payload.bytes, type: 'waits' });
  }
  await opened.settled();
  await opened.store.checkpoint();
  opened.step({ type: 'cancel', uid: 'j0', by: 'test' });
  opened.submit('after', { type: 'waits' });
  await opened.handedOver();
  await opened.store.checkpoint();
  await opened.close();
  opened = await open();
  const { state } = opened.engine;
  assert.equal(state.jobs.size, count + bodiesMib);
  assert.ok(state.queuedBytes >= 1023 * MIB, `${state.queuedBytes} bytes of state`);
  for (const n of [1, count >> 1, count - 1]) {
    assert.equal(JSON.parse(opened.job(`j${n}`).ask.payload as string), String(n).padEnd(4094, 'x'));
  }
  for (const n of [0, bodiesMib - 1].filter((each) => each >= 0 && bodiesMib > 0)) {
    const text = String(await opened.store.readBlob(opened.job(`b${n}`).ask.payload as BlobRef));
    assert.ok(text === body(n));
  }
  assert.equal((await opened.store.history.get('j0'))?.job.state, 'cancelled');
  await opened.close();
}
