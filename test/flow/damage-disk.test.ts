/** Brains on real disks that are held, read-only, full or damaged under them. */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { watch } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { isHeld } from '../../src/cli/lock-probe.ts';
import {
  createOrchestrator,
  type FunctionContext,
  type OrchdError,
  type Orchestrator,
} from '../../src/index.ts';
import { RealDisk } from '../../src/kit/env/real-disk.ts';
import type { Body } from '../../src/model/body.ts';
import type { FileRef } from '../../src/stores/journal/blobs.ts';
import { examine } from '../../src/stores/journal/doctor/doctor.ts';
import { engineOf } from '../fakes/engine-of.ts';
import { fill, mountsMissing, mountTmpfs, unmountAll } from '../fakes/mounts.ts';

const root = mkdtempSync(join(tmpdir(), 'orchd-damage-'));
after(() => {
  unmountAll();
  rmSync(root, { recursive: true, force: true });
});

const missing = mountsMissing();
const TIMEOUT = { timeout: 60_000 };

/** Jobs wait here until they are let go. */
class Gate {
  readonly #waiting = new Map<string, () => void>();

  readonly run = async (payload: { result?: string }, { jobId }: FunctionContext): Promise<unknown> => {
    await new Promise<void>((resolve) => this.#waiting.set(jobId, resolve));
    return payload.result ?? jobId;
  };

  async holds(jobId: string): Promise<void> {
    await until(() => this.#waiting.has(jobId));
  }

  open(jobId: string): void {
    this.#waiting.get(jobId)?.();
  }
}

async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 10));
}

const start = (data: string, gate = new Gate(), slots = 2): Promise<Orchestrator> =>
  createOrchestrator({
    data,
    backends: [
      { name: 'gated', slots, types: { inference: gate.run as never } },
      { name: 'quick', slots, types: { quick: (payload: unknown) => payload } },
    ],
  });

test('a start that is refused says so and lets go of the folder', { timeout: 20_000 }, async () => {
  const data = join(root, 'refused');
  const brain = await start(data);
  for (let n = 0; n < 10; n++) await brain.submit({ type: 'quick', payload: n });
  await brain.stop();
  const segment = join(
    data,
    'log',
    readdirSync(join(data, 'log'))
      .filter((name) => name !== 'spare')
      .at(-1) ?? '',
  );
  const bytes = readFileSync(segment);
  const good = Buffer.from(bytes);
  // In the middle, so that a part of the log has been applied when the damage is found.
  bytes.writeUInt8(bytes.readUInt8(2048 + 60) ^ 1, 2048 + 60);
  writeFileSync(segment, bytes);
  for (let tries = 0; tries < 2; tries++) {
    await assert.rejects(start(data), (error: OrchdError) => {
      assert.equal(error.code, 'STORE_CORRUPT');
      assert.match(error.details.position ?? '', /^log\/\d{16}\.log:\d+$/);
      assert.match(error.next, /orchd doctor/);
      return true;
    });
  }
  writeFileSync(segment, good);
  await (await start(data)).stop();
});

test('a folder that another process holds is refused, until that process is gone', TIMEOUT, async () => {
  const data = join(root, 'held');
  const program = join(root, 'holder.mts');
  const source = new URL('../../src/index.ts', import.meta.url).href;
  writeFileSync(
    program,
    `import { createOrchestrator } from ${JSON.stringify(source)};
    await createOrchestrator({ data: ${JSON.stringify(data)}, backends: [] });
    console.log('ready');
    setInterval(() => undefined, 1000);`,
  );
  const child = spawn(process.execPath, [program], { stdio: ['ignore', 'pipe', 'inherit'] });
  try {
    await once(child.stdout, 'data');
    await assert.rejects(start(data), { code: 'STORE_LOCKED' });
    assert.equal((await examine(new RealDisk(), data)).inUse, true);
    await assert.rejects(start(data), { code: 'STORE_LOCKED' }, 'looking has not freed it');
  } finally {
    child.kill('SIGKILL');
    await once(child, 'exit');
  }
  const brain = await start(data);
  await brain.stop();
});

test('a folder that this process holds is refused a second time', TIMEOUT, async () => {
  const data = join(root, 'twice');
  const brain = await start(data);
  await assert.rejects(start(data), { code: 'STORE_LOCKED' });
  await examine(new RealDisk(), data);
  await assert.rejects(start(data), { code: 'STORE_LOCKED' }, 'looking has not freed it');
  assert.equal((await brain.submit({ type: 'quick', payload: 1 })).status, 'queued');
  await brain.stop();
});

async function refusedAsUnwritable(folder: string): Promise<void> {
  await assert.rejects(start(folder), (error: OrchdError) => {
    assert.equal(error.code, 'STORE_UNWRITABLE');
    assert.match(error.next, /mounted read-only/);
    return true;
  });
}

const ON_MOUNT = { timeout: 20_000, skip: missing ?? false };

test('a folder on a read-only disk is refused with what to check', ON_MOUNT, async () => {
  const mount = mountTmpfs(32);
  try {
    const data = join(mount.folder, 'data');
    const brain = await start(data);
    await brain.submit({ type: 'quick', payload: 1 });
    await brain.stop();
    mount.remount('ro');
    const { verdict, findings } = await examine(new RealDisk(), data, { isHeld });
    assert.equal(verdict, 'ok', JSON.stringify(findings));
    await refusedAsUnwritable(data);
    mount.remount('rw');
    await (await start(data)).stop();
  } finally {
    mount.unmount();
  }
});

test('a new folder on a read-only disk is refused with what to check', ON_MOUNT, async () => {
  const mount = mountTmpfs(1);
  try {
    mount.remount('ro');
    await refusedAsUnwritable(join(mount.folder, 'new'));
  } finally {
    mount.unmount();
  }
});

test('a file in place of the folder is refused with what to check', TIMEOUT, async () => {
  writeFileSync(join(root, 'file'), '');
  await refusedAsUnwritable(join(root, 'file'));
});

/** Submits until new work is refused; returns the jobs that were taken. */
async function submitUntilFull(brain: Orchestrator): Promise<string[]> {
  const taken: string[] = [];
  for (;;) {
    const requests = Array.from({ length: 50 }, () => ({ type: 'quick', payload: 'x'.repeat(4000) }));
    for (const answer of await brain.submitMany(requests)) {
      if ('job_id' in answer) taken.push(answer.job_id);
      else {
        assert.equal((answer as OrchdError).code, 'STORE_FULL');
        return taken;
      }
    }
    assert.ok(taken.length < 9000, 'the disk never got full');
  }
}

interface Full {
  readonly brain: Orchestrator;
  readonly gate: Gate;
  readonly data: string;
  readonly running: string;
  readonly large: string;
  readonly waiting: string;
  /** Jobs that were taken before the disk counted as full. */
  readonly taken: readonly string[];
  makeSpace(): void;
}

/** A brain whose disk has just become full, with two jobs running and many waiting. */
async function onFullDisk(use: (full: Full) => Promise<void>): Promise<void> {
  const mount = mountTmpfs(48);
  try {
    const data = join(mount.folder, 'data');
    const ballast = join(mount.folder, 'ballast');
    const gate = new Gate();
    const brain = await start(data, gate);
    const { job_id: running } = await brain.submit({ payload: {} });
    const { job_id: large } = await brain.submit({ payload: { result: 'x'.repeat(100_000) } });
    const { job_id: waiting } = await brain.submit({ payload: {}, key: 'waiting' });
    await gate.holds(running);
    await gate.holds(large);
    fill(ballast);
    const taken = await submitUntilFull(brain);
    const makeSpace = (): void => rmSync(ballast);
    await use({ brain, gate, data, running, large, waiting, taken, makeSpace });
    for (const id of [running, large]) gate.open(id);
    await brain.stop();
  } finally {
    mount.unmount();
  }
}

/** The jobs in a state, once none waits any more. */
async function idsIn(brain: Orchestrator, state: string): Promise<Set<string>> {
  await until(() => engineOf(brain).state.counts.queued === 0 && engineOf(brain).state.open.size === 0);
  const ids = new Set<string>();
  for (let cursor: string | undefined; ; ) {
    const page = await brain.list({ state, limit: 1000, ...(cursor !== undefined && { cursor }) });
    for (const { job_id } of page.jobs) ids.add(job_id);
    cursor = page.cursor;
    if (cursor === undefined) return ids;
  }
}

const onFull = { timeout: 60_000, skip: missing ?? false };

test('a full disk: new work is refused while reads, cancels and outcomes go on', onFull, async (t) => {
  await onFullDisk(async ({ brain, gate, running, waiting, taken, makeSpace }) => {
    t.diagnostic(`${taken.length} jobs were taken before the disk counted as full`);
    await assert.rejects(brain.submit({ payload: 1 }), { code: 'STORE_FULL', status: 507, retriable: true });
    assert.equal((await brain.get(waiting)).state, 'queued');
    assert.equal((await brain.list({ limit: 10 })).jobs.length, 10);
    assert.equal((await brain.cancel(waiting)).state, 'cancelled');
    gate.open(running);
    assert.equal((await brain.wait(running)).result, running);
    await assert.rejects(brain.submit({ payload: 1 }), { code: 'STORE_FULL' });
    makeSpace();
  });
});

test('a full disk: a job whose payload needs a file of its own is refused alike', onFull, async () => {
  await onFullDisk(async ({ brain, makeSpace }) => {
    await assert.rejects(brain.submit({ payload: 'x'.repeat(50_000) }), { code: 'STORE_FULL' });
    makeSpace();
  });
});

/** Settles when the index has tried to write so many times, the last ones with all jobs that have ended by now. */
async function indexWrites(data: string, times: number): Promise<void> {
  let left = times;
  for await (const { filename } of watch(data)) {
    if (filename === 'history.sqlite-wal') left--;
    if (left === 0) return;
  }
}

test('a full disk: the index of ended jobs waits, and the brain goes on', onFull, async () => {
  await onFullDisk(async ({ brain, gate, data, running, waiting, makeSpace }) => {
    gate.open(running);
    await brain.wait(running);
    await brain.cancel(waiting);
    await indexWrites(data, 3);
    assert.equal(brain.failure, undefined);
    assert.equal((await brain.get(running)).state, 'succeeded');
    assert.equal((await brain.get(waiting)).state, 'cancelled');
    makeSpace();
  });
});

test('a full disk: everything resumes with the space, and nothing is lost', onFull, async () => {
  await onFullDisk(async ({ brain, gate, data, running, large, waiting, taken, makeSpace }) => {
    gate.open(large);
    makeSpace();
    const { result } = (await brain.wait(large)) as { result: string };
    assert.equal(result.length, 100_000);
    gate.open(running);
    await gate.holds(waiting);
    gate.open(waiting);
    let fresh: string | undefined;
    await until(async () => {
      fresh = await brain.submit({ type: 'quick', payload: 'after' }).then(
        ({ job_id }) => job_id,
        () => undefined,
      );
      return fresh !== undefined;
    });
    assert.equal((await brain.wait(fresh ?? '')).result, 'after');
    const done = await idsIn(brain, 'succeeded');
    assert.deepEqual(
      taken.filter((id) => !done.has(id)),
      [],
    );
    await brain.stop();
    const { verdict, findings } = await examine(new RealDisk(), data, { isHeld });
    assert.equal(verdict, 'ok', JSON.stringify(findings.filter((finding) => finding.verdict !== 'ok')));
  });
});

test('a start on a full disk is refused, and works once there is space', ON_MOUNT, async () => {
  const mount = mountTmpfs(32);
  try {
    const data = join(mount.folder, 'data');
    const ballast = join(mount.folder, 'ballast');
    const first = await start(data);
    const { job_id } = await first.submit({ type: 'quick', payload: 'kept' });
    await first.wait(job_id);
    await first.checkpoint();
    await first.stop();
    rmSync(join(data, 'log', 'spare'), { force: true });
    fill(ballast);
    for (let tries = 0; tries < 3; tries++) await assert.rejects(start(data), { code: 'STORE_FULL' });
    rmSync(ballast);
    const second = await start(data);
    assert.equal((await second.get(job_id)).result, 'kept');
    await second.stop();
  } finally {
    mount.unmount();
  }
});

/** Flips one bit of the only blob file, at this place of it. */
function flipBlob(data: string, at: number): void {
  const [name] = readdirSync(join(data, 'blobs'));
  const path = join(data, 'blobs', name ?? '');
  const bytes = readFileSync(path);
  bytes.writeUInt8(bytes.readUInt8(at) ^ 1, at);
  writeFileSync(path, bytes);
}

test('a flipped bit in a result: reading it is refused, and nothing else breaks', TIMEOUT, async () => {
  const data = join(root, 'blob-result');
  const brain = await start(data);
  const submit = async (payload: string): Promise<string> =>
    (await brain.submit({ type: 'quick', payload })).job_id;
  const [damaged, intact] = [await submit('a'.repeat(5000)), await submit('b'.repeat(5000))];
  const results = new Map<string, Body | undefined>();
  for (const id of [damaged, intact]) {
    await brain.wait(id);
    results.set(id, engineOf(brain).state.jobs.get(id)?.job.result);
  }
  const { file, offset } = results.get(damaged) as FileRef;
  assert.equal(file, 1);
  flipBlob(data, offset + 10);
  await assert.rejects(brain.get(damaged), (error: OrchdError) => {
    assert.equal(error.code, 'STORE_CORRUPT');
    assert.match(error.details.position ?? '', /^blobs\/\d{8}\.blob:\d+$/);
    return true;
  });
  assert.equal((await brain.get(intact)).result, 'b'.repeat(5000));
  const { jobs } = await brain.list({});
  assert.deepEqual(
    jobs.map(({ state }) => state),
    ['succeeded', 'succeeded'],
  );
  const { job_id } = await brain.submit({ type: 'quick', payload: 'on' });
  assert.equal((await brain.wait(job_id)).result, 'on');
  await brain.stop();
  const again = await start(data);
  await assert.rejects(again.get(damaged), { code: 'STORE_CORRUPT' });
  assert.equal((await again.get(intact)).result, 'b'.repeat(5000));
  await again.stop();
});

test(
  'a flipped bit in a payload: that job ends with the reason, and nothing else breaks',
  TIMEOUT,
  async () => {
    const data = join(root, 'blob-payload');
    const gate = new Gate();
    const brain = await start(data, gate, 1);
    const { job_id: first } = await brain.submit({ payload: {} });
    await gate.holds(first);
    const { job_id: damaged } = await brain.submit({ payload: { result: 'a'.repeat(5000) } });
    const { job_id: intact } = await brain.submit({ payload: { result: 'b'.repeat(5000) } });
    flipBlob(data, 100);
    gate.open(first);
    const ended = await brain.wait(damaged);
    assert.deepEqual([ended.state, ended.error?.code], ['dead', 'STORE_CORRUPT']);
    await gate.holds(intact);
    gate.open(intact);
    assert.equal((await brain.wait(intact)).result, 'b'.repeat(5000));
    await brain.stop();
  },
);

test('a blob file that is gone: reading from it is refused by name', TIMEOUT, async () => {
  const data = join(root, 'blob-gone');
  const brain = await start(data);
  const { job_id } = await brain.submit({ type: 'quick', payload: 'a'.repeat(5000) });
  await brain.wait(job_id);
  for (const name of readdirSync(join(data, 'blobs'))) rmSync(join(data, 'blobs', name));
  await assert.rejects(brain.get(job_id), { code: 'STORE_CORRUPT' });
  await brain.stop();
});
