/** Folders that an earlier orchd wrote are opened by this one, and folders of a later one are left alone. */
import type { StoreEvents } from '../../src/core/ports/store.ts';
import { engineOf } from '../fakes/engine-of.ts';
import type { Backend } from '../../src/core/ports/backend.ts';
import assert from 'node:assert/strict';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { crc32 } from 'node:zlib';
import { State } from '../../src/core/state/state.ts';
import { createOrchestrator } from '../../src/index.ts';
import type { Env } from '../../src/kit/env/env.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { examine } from '../../src/stores/journal/doctor/doctor.ts';
import { encodeFrame } from '../../src/stores/journal/log/frame.ts';
import { JournalStore } from '../../src/stores/journal/journal.ts';
import { paths } from '../../src/stores/journal/layout.ts';
import { type Manifest, readManifest, writeManifest } from '../../src/stores/journal/checkpoint/manifest.ts';
import { readLog, readWhole } from '../../src/stores/journal/log/segments.ts';
import { ThreadBackground } from '../../src/stores/journal/thread.ts';
import { openInto } from '../../src/runtime/open-store.ts';

const START = 1_800_000_000_000;
const YEAR_MS = 365 * 24 * 3600_000;
/** A minute after the folder was written: waits and the failure cache still hold. */
const NOW = START + 60_000;
const FOREVER = new Promise<never>(() => undefined);

const root = mkdtempSync(join(tmpdir(), 'orchd-golden-'));
let copies = 0;

after(() => rmSync(root, { recursive: true, force: true }));

function copyOf(version: string): string {
  const folder = join(root, `${version}-${++copies}`);
  cpSync(join(import.meta.dirname, version), folder, { recursive: true });
  return folder;
}

const env: Env = { ...realEnv(), clock: { now: () => NOW, monotonic: () => performance.now() } };

/** Knows nothing and says nothing: what was open stays as it was. */
const SILENT: Backend = {
  info: {
    name: 'scripted',
    kind: 'test',
    slots: 8,
    types: ['inference'],
    models: undefined,
    labels: {},
    paid: true,
    keepsResults: true,
    registry: 'golden',
  },
  offer: () => FOREVER,
  inspect: () => FOREVER,
  follow: () => FOREVER,
  kill: () => FOREVER,
  ack: () => FOREVER,
};

const NO_EVENTS: StoreEvents = {
  durable: () => undefined,
  indexed: () => undefined,
  space: () => undefined,
  failed: () => undefined,
  ask: () => undefined,
};

function storeOf(folder: string): JournalStore {
  return new JournalStore(env, {
    folder,
    checkpointIntervalMs: YEAR_MS,
    historyMs: YEAR_MS,
    auditMs: YEAR_MS,
    auditBytes: 2 ** 30,
    background: (where) => new ThreadBackground(where, env.timers),
  });
}

const newState = (): State => new State({ cancelDeadlineMs: 5000, failureCacheSize: 1000 });

/** Every job of version 1, newest first: state, attempts made, tries spent. */
const V1_JOBS: readonly [id: string, state: string, attempts: number, tries: number][] = [
  ['late', 'succeeded', 1, 0],
  ['given-up', 'cancelled', 0, 0],
  ['homeless', 'queued', 0, 0],
  ['claimed', 'claimed', 1, 0],
  ['stale', 'stale', 1, 0],
  ['in-session', 'queued', 0, 0],
  ['running', 'running', 1, 0],
  ['redriven', 'succeeded', 2, 0],
  ['waiting', 'queued', 0, 0],
  ['poisoned', 'dead', 1, 1],
  ['retried', 'succeeded', 2, 1],
  ['big', 'succeeded', 1, 0],
  ['done', 'succeeded', 1, 0],
];

test('version 1: every job is there with its state, its attempts and its result', async () => {
  const brain = await createOrchestrator({ data: copyOf('v1'), backends: [SILENT], env });
  try {
    const { jobs } = await brain.list({ limit: 100 });
    assert.deepEqual(
      jobs.map(({ job_id, state, attempts, tries }) => [job_id, state, attempts.at(-1)?.attempt ?? 0, tries]),
      V1_JOBS,
    );
    for (const [id, result] of Object.entries({
      done: { says: 'done', try: 1 },
      retried: { says: 'retried', try: 2 },
      redriven: { says: 'redriven', try: 2 },
      late: { says: 'late', try: 1 },
      big: 'lorem ipsum '.repeat(500),
    })) {
      assert.deepEqual((await brain.get(id)).result, result);
    }
    const done = await brain.get('done');
    const fields = [done.agent, done.key, done.priority, done.score, done.created_at, done.ended_at];
    assert.deepEqual(fields, ['anna', 'finished', 'interactive', 5, START, START]);
    const { error, reason } = await brain.get('poisoned');
    assert.deepEqual([error?.code, error?.message, reason], ['EXECUTION_FAILED', 'it is poison', 'failed']);
    assert.deepEqual((await brain.get('given-up')).cancel_requested, true);
  } finally {
    await brain.stop();
  }
});

test('version 1: what was promised before still holds', async () => {
  const brain = await createOrchestrator({ data: copyOf('v1'), backends: [SILENT], env });
  try {
    const poisoned = brain.submit({ payload: 1, key: 'poison' });
    await assert.rejects(poisoned, {
      code: 'ADMISSION_REJECT',
      details: { reason: 'recent_failure', ...WAIT },
    });
    const repeat = { agent: 'anna', key: 'finished', priority: 'interactive', score: 5 } as const;
    const again = await brain.submit({ job_id: 'done', payload: { ask: 'done' }, ...repeat });
    assert.deepEqual([again.status, again.duplicate_of], ['succeeded', 'job_id']);
    await assert.rejects(brain.submit({ job_id: 'done', payload: 2 }), { code: 'JOB_CONFLICT' });
    const { state } = engineOf(brain);
    assert.equal(state.jobs.get('waiting')?.parked, 'not_before');
    assert.equal(state.jobs.get('in-session')?.parked, 'session');
    assert.deepEqual([...state.open.keys()].sort(), ['claimed:1', 'running:1', 'stale:1']);
    assert.equal(state.brain?.epoch, 2);
  } finally {
    await brain.stop();
  }
});

const WAIT = { retryAfterMs: 3_540_030 };

test('version 1: the records are what they were, down to the open attempts', async () => {
  const state = newState();
  const store = storeOf(copyOf('v1'));
  await openInto(state, store, NO_EVENTS, NOW);
  try {
    const open = (id: string) => {
      const attempt = state.jobs.get(id)?.open;
      return [attempt?.n, attempt?.state, attempt?.backend, attempt?.registry, attempt?.epoch];
    };
    assert.deepEqual(open('claimed'), [1, 'intended', 'scripted', 'golden', 1]);
    assert.deepEqual(open('running'), [1, 'accepted', 'scripted', 'golden', 1]);
    assert.deepEqual(open('stale'), [1, 'unknown', 'scripted', 'golden', 1]);
    assert.equal(state.jobs.get('waiting')?.waitsUntil, START + YEAR_MS);
    assert.equal(state.jobs.get('running')?.ask.spec.timeout_ms, 8.64e9);
    assert.deepEqual([...state.failures.keys()], ['default~poison']);
    assert.equal(state.seq, 81);
    const retried = await store.history.get('retried');
    assert.deepEqual(
      retried?.attempts.map(({ outcome, error }) => [outcome, error?.message]),
      [
        ['failed', 'a hiccup'],
        ['succeeded', undefined],
      ],
    );
    assert.equal((await store.history.get('done'))?.job.endedAt, START);
  } finally {
    await store.close();
  }
});

test('version 1: the doctor finds it healthy, before and after this program has used it', async () => {
  const folder = copyOf('v1');
  assert.equal((await examine(env.disk, folder)).verdict, 'ok');
  const brain = await createOrchestrator({ data: folder, backends: [SILENT], env });
  await brain.submit({ payload: 'new' });
  await brain.checkpoint();
  await brain.stop();
  const { verdict, findings } = await examine(env.disk, folder);
  assert.equal(verdict, 'ok', JSON.stringify(findings));
});

/** Everything in a folder but the lock, which every opening makes. */
function contents(folder: string): Map<string, string> {
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => name !== 'lock');
  const files = names.sort().filter((name) => statSync(join(folder, name)).isFile());
  return new Map(files.map((name) => [name, readFileSync(join(folder, name), 'hex')]));
}

/** Adds a frame to the log as the next opener would find it. */
async function addChange(folder: string, change: readonly unknown[]): Promise<void> {
  const where = paths(folder);
  const end = await readLog(env.disk, where.log, { nextSeq: 1, chain: 0 }, () => undefined);
  const text = `${JSON.stringify(change)}\n`;
  const { nextSeq: firstSeq, epoch, at, chain = 0 } = end;
  const { frame } = encodeFrame({ firstSeq, count: 1, epoch, at, chain, text });
  const file = await env.disk.open(join(where.log, end.segment?.name ?? ''), 'write');
  await file.write(end.goodBytes, frame);
  await file.close();
}

/** Changes the text of the first part of the checkpoint, checksums included. */
async function changePart(folder: string, from: string, to: string): Promise<void> {
  const where = paths(folder);
  const manifest = (await readManifest(env.disk, where.manifest)) as Manifest;
  const [first, ...others] = manifest.parts;
  assert.ok(first);
  const path = join(where.parts, first.name);
  const before = (await readWhole(env.disk, path)).toString();
  const bytes = Buffer.from(before.replace(from, to));
  assert.notEqual(bytes.toString(), before);
  const file = await env.disk.open(path, 'create');
  await file.write(0, bytes);
  await file.close();
  const parts = [{ ...first, bytes: bytes.length, crc: crc32(bytes) }, ...others];
  await writeManifest(env.disk, where, { ...manifest, parts });
}

const NEWER: Readonly<Record<string, (folder: string) => Promise<void>>> = {
  'whose checkpoint has a newer format': async (folder) => {
    const where = paths(folder);
    const manifest = (await readManifest(env.disk, where.manifest)) as Manifest;
    await writeManifest(env.disk, where, { ...manifest, format: 2 });
  },
  'with a record of a newer version in the log': (folder) =>
    addChange(folder, ['job', 'waiting', { v: 3, state: 'queued', attempt: 0, tries: 0 }, 'test']),
  'with a record of an unknown kind in the log': (folder) =>
    addChange(folder, ['saga', 'gpu-0', { v: 1, until: 1 }, 'test']),
  'with a record of a newer version in the checkpoint': (folder) =>
    changePart(folder, '"job":{"v":1', '"job":{"v":3'),
};

for (const [what, change] of Object.entries(NEWER)) {
  test(`a folder ${what} is refused and left as it is, byte for byte`, async () => {
    const folder = copyOf('v1');
    await change(folder);
    const before = contents(folder);
    for (let tries = 0; tries < 2; tries++) {
      await assert.rejects(openInto(newState(), storeOf(folder), NO_EVENTS, NOW), { code: 'STORE_TOO_NEW' });
      assert.deepEqual(contents(folder), before);
    }
    assert.equal((await examine(env.disk, folder)).salvage, undefined);
  });
}

test('the golden folder is small and holds nothing that is derived', () => {
  const files = contents(join(import.meta.dirname, 'v1'));
  const bytes = [...files.values()].reduce((sum, hex) => sum + hex.length / 2, 0);
  assert.ok(bytes < 100_000, `${bytes} bytes`);
  assert.ok(![...files.keys()].some((name) => /history|spare/.test(name)));
});
