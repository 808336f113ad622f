/** A damaged index of ended jobs: the brain that meets the damage sets it aside and makes it again from the log. */
import assert from 'node:assert/strict';
import { closeSync, existsSync, mkdtempSync, openSync, rmSync, statSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { copyFolder } from '../../../../test/fakes/copy-folder.ts';
import { engineOf } from '../../../../test/fakes/engine-of.ts';
import { isHeld } from '../../../cli/lock-probe.ts';
import { createOrchestrator, type Orchestrator } from '../../../index.ts';
import { RealDisk } from '../../../kit/env/real-disk.ts';
import { InlineBackground } from '../background.ts';
import { examine } from '../doctor/doctor.ts';
import { paths } from '../layout.ts';
import { HistoryDamaged } from './history.ts';
import { MemoryHistory } from './memory.ts';
import { MendedBackground } from './mended.ts';
import type { RebuiltHistory } from './rebuild.ts';

const PAGE_BYTES = 4096;
const JOBS = 200;

const root = mkdtempSync(join(tmpdir(), 'orchd-mended-'));
const original = join(root, 'original');
const ids: string[] = [];
let copies = 0;

after(() => rmSync(root, { recursive: true, force: true }));

const start = (data: string): Promise<Orchestrator> =>
  createOrchestrator({
    data,
    backends: [{ name: 'local', slots: 8, types: { inference: (payload: unknown) => payload } }],
  });

const turn = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 5));

/** Ended jobs leave memory once the index has them; from then on only the index answers for them. */
async function allIndexed(brain: Orchestrator): Promise<void> {
  while (engineOf(brain).state.jobs.size > 0) await turn();
}

before(async () => {
  const brain = await start(original);
  const asks = Array.from({ length: JOBS }, (_, n) => ({
    payload: { n, text: 'x'.repeat(600) },
    key: `k${n}`,
  }));
  for (const ask of asks) ids.push((await brain.submit(ask)).job_id);
  for (const id of ids) await brain.wait(id);
  await allIndexed(brain);
  await brain.stop();
});

const answers = (brain: Orchestrator): Promise<unknown[]> => Promise.all(ids.map((id) => brain.get(id)));

/** A copy of the folder, with so many pages of its index overwritten from this page on. */
function damaged(page: number, pages: number): string {
  const folder = join(root, `copy-${++copies}`);
  copyFolder(original, folder, ['spare']);
  const noise = Uint8Array.from({ length: pages * PAGE_BYTES }, (_, at) => (at * 2654435761) >>> 13);
  const file = openSync(join(folder, 'history.sqlite'), 'r+');
  writeSync(file, noise, 0, noise.length, page * PAGE_BYTES);
  closeSync(file);
  return folder;
}

async function assertHealthy(folder: string): Promise<void> {
  const { findings } = await examine(new RealDisk(), folder, { isHeld });
  assert.deepEqual(
    findings.filter(({ verdict }) => verdict !== 'ok'),
    [],
  );
  const aside = findings.find(({ position }) => position === 'history.sqlite.damaged');
  assert.match(aside?.sentence ?? '', /a damaged index that was set aside/);
}

test('damage anywhere in the index: every ended job answers as before, and the doctor is content', async () => {
  const whole = await start(join(root, 'original'));
  const expected = await answers(whole);
  await whole.stop();
  const pages = statSync(join(original, 'history.sqlite')).size / PAGE_BYTES;
  // The first pages are those of empty tables, which nothing reads here.
  for (const part of [0.2, 0.3, 0.5, 0.75, 0.9]) {
    const folder = damaged(Math.floor(pages * part), 3);
    const brain = await start(folder);
    assert.deepEqual(await answers(brain), expected, `at ${part} of ${pages} pages`);
    assert.equal((await brain.list({ limit: 100 })).jobs.length, 100);
    const { job_id } = await brain.submit({ payload: 'later' });
    assert.equal((await brain.wait(job_id)).result, 'later');
    await allIndexed(brain);
    assert.equal((await brain.get(job_id)).result, 'later', 'the new index takes what ends after the repair');
    await brain.stop();
    assert.ok(existsSync(join(folder, 'history.sqlite.damaged')));
    await assertHealthy(folder);
  }
});

class FailingRepair extends InlineBackground {
  isDamaged = true;
  isFull = true;
  calls = 0;

  constructor() {
    super(new RealDisk(), paths(root), new MemoryHistory());
  }

  override async usesBlobFile(): Promise<boolean> {
    this.calls++;
    if (this.isDamaged) throw new HistoryDamaged('malformed');
    return true;
  }

  override async repair(): Promise<RebuiltHistory> {
    if (this.isFull) throw Object.assign(new Error('no space'), { code: 'ENOSPC' });
    this.isDamaged = false;
    return { from: 1, upTo: 1 };
  }
}

test('a history that could not be repaired answers nothing, and is repaired by a later call', async () => {
  const inner = new FailingRepair();
  const warnings: string[] = [];
  const mended = new MendedBackground(inner, (text) => warnings.push(text));
  await assert.rejects(mended.usesBlobFile(1), { code: 'ENOSPC' });
  await assert.rejects(mended.usesBlobFile(1), { code: 'ENOSPC' });
  assert.equal(inner.calls, 1, 'the second call did not reach the damaged history');
  await assert.rejects(mended.reads.get('a'), { code: 'STORE_FULL' });
  inner.isFull = false;
  const all = await Promise.all([mended.usesBlobFile(1), mended.usesBlobFile(2), mended.reads.count()]);
  assert.deepEqual(all, [true, true, 0]);
  assert.equal(warnings.length, 1, 'one repair serves all who wait');
});
