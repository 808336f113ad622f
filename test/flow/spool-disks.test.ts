/** A spool on disks that are full, read-only or not one: nothing is lost, and the work goes on by itself. */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { join } from 'node:path';
import { after, type TestContext, test } from 'node:test';
import type { JobHandler } from '../../src/daemons/spool/handler.ts';
import { checkSpool } from '../../src/spool/invariants.ts';
import { findJobs, seeJob } from '../../src/spool/reads.ts';
import { openSpool } from '../../src/spool/spool.ts';
import { fill, type Mount, mountsMissing, mountTmpfs, unmountAll } from '../fakes/mounts.ts';
import { deadOwner } from '../fakes/spool-kit.ts';
import { SpoolServices } from './spool-services.ts';

/** Larger than a page, so that a disk with one free page takes a part of it. */
const LONG_RESULT = 'x'.repeat(20_000);
const PAGE_BYTES = 4096;

const LIMITS = { skip: mountsMissing() ?? false, timeout: 60_000 };
after(unmountAll);

interface Gate {
  readonly handler: JobHandler;
  /** Settles when the first job is begun. */
  readonly begun: Promise<void>;
  readonly runs: Map<string, number>;
  open(): void;
}

/** A handler whose jobs end when the test says so. */
function gate(t: TestContext): Gate {
  const [begun, opened] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const runs = new Map<string, number>();
  t.after(() => opened.resolve());
  return {
    begun: begun.promise,
    runs,
    open: opened.resolve,
    handler: async ({ name }) => {
      runs.set(name, (runs.get(name) ?? 0) + 1);
      begun.resolve();
      await opened.promise;
      return { ok: true, result: LONG_RESULT };
    },
  };
}

/** A spool on a small file system of its own. */
async function onSmallDisk(t: TestContext): Promise<{ site: SpoolServices; disk: Mount }> {
  const disk = mountTmpfs(2);
  return { site: await SpoolServices.make(t, { folder: join(disk.folder, 'spool') }), disk };
}

/** Fills a file system up to one page, into which a part of a file still fits. Returns how to empty it again. */
function fillUpToAPage({ folder }: Mount): () => void {
  const path = join(folder, 'filler');
  fill(path);
  fs.truncateSync(path, fs.statSync(path).size - PAGE_BYTES);
  return () => fs.rmSync(path);
}

const job = (status: string): string =>
  JSON.stringify({ status, 'schema-version': '1.0.0', retry_count: 0, max_retries: 5 });

/** Makes folders beside the spool, on its disk. Returns how to put them into it, which needs no space. */
function prepared({ kit }: SpoolServices): () => void {
  const aside = {
    'incoming/abandoned.lock': { 'owner.json': deadOwner(kit, 'agent-dead') },
    'in-progress/agent-dead': {},
    'in-progress/agent-dead/abandoned': { 'prompt.json': '{}', 'job.json': job('in-progress') },
    'completed/failed/failed': { 'prompt.json': '{}', 'job.json': job('failed') },
  };
  const folders = Object.entries(aside);
  for (const [n, [, files]] of folders.entries()) kit.put(`../aside-${n}`, files);
  return () => {
    for (const [n, [path]] of folders.entries()) fs.renameSync(kit.path(`../aside-${n}`), kit.path(path));
  };
}

test(
  'a disk is full: what agent, watchdog and manager could not write they write when there is space',
  LIMITS,
  async (t) => {
    const { site, disk } = await onSmallDisk(t);
    const { handler, begun, open, runs } = gate(t);
    for (const service of [site.watchdog(), site.manager(), site.agent(handler, { slots: 1 })])
      await site.start(service);
    await site.submit('running');
    await begun;
    await site.submit('waiting');
    const putIntoSpool = prepared(site);
    const empty = fillUpToAPage(disk);
    putIntoSpool();
    open();
    await site.logged('error', /"job_id":"running".*ENOSPC/);
    await site.logged('error', /a part of the spool could not be repaired.*"job_id":"abandoned".*ENOSPC/);
    await site.logged('error', /a job could not be retried.*"job_id":"failed".*ENOSPC/);
    assert.deepEqual(site.kit.names('completed/succeeded'), []);
    const isWhole = ({ code }: { readonly code: string }): boolean => code === 'UNREADABLE_JOB';
    assert.deepEqual((await checkSpool(site.kit.spool)).filter(isWhole), [], 'no file is half written');
    empty();
    await site.has('completed/succeeded', 'abandoned', 'failed', 'running', 'waiting');
    for (const [name, count] of runs) assert.equal(count, 1, name);
  },
);

test(
  'a disk is read-only for a while: jobs stay where they are, and are run and committed afterwards',
  LIMITS,
  async (t) => {
    const { site, disk } = await onSmallDisk(t);
    const { handler, begun, open, runs } = gate(t);
    await site.start(site.agent(handler, { slots: 1 }));
    await site.submit('running');
    await begun;
    await site.submit('waiting');
    disk.remount('ro');
    open();
    await site.logged('error', /the end of a job could not be written.*EROFS/);
    assert.deepEqual(site.kit.names('incoming'), ['running.lock', 'waiting']);
    disk.remount('rw');
    await site.has('completed/succeeded', 'running', 'waiting');
    assert.deepEqual([...runs.values()], [1, 1]);
  },
);

test(
  'a disk becomes read-only while an agent claims: it gives job and lock back when it can',
  LIMITS,
  async (t) => {
    const { site, disk } = await onSmallDisk(t);
    const { disk: inner } = site.kit.spool.env;
    const rename = inner.rename.bind(inner);
    let isArmed = true;
    // The instant between the lock and the move of the job.
    inner.rename = async (from, to) => {
      if (isArmed && to.endsWith('/job')) {
        isArmed = false;
        disk.remount('ro');
      }
      return rename(from, to);
    };
    const { handler, open } = gate(t);
    open();
    await site.submit('other');
    isArmed = true;
    site.kit.put('incoming/job', { 'prompt.json': '{}' });
    await site.start(site.agent(handler, { slots: 1 }));
    await site.logged('error', /a job could not be tried.*"job_id":"job".*EROFS/);
    assert.ok(site.kit.names('incoming').includes('job'));
    disk.remount('rw');
    await site.has('completed/succeeded', 'job', 'other');
  },
);

test('a spool on two file systems is not opened, and named by check', LIMITS, async (t) => {
  const site = await SpoolServices.make(t);
  const { spool, folder } = site.kit;
  const mount = mountTmpfs(1, site.kit.path('jobs/stale'));
  await assert.rejects(openSpool({ ...spool, folder }), {
    code: 'SPOOL_INVALID',
    message: /different file systems/,
  });
  assert.deepEqual(
    (await checkSpool(spool)).map(({ code, path }) => [code, path]),
    [['OTHER_FILE_SYSTEM', 'jobs/stale']],
  );
  mount.unmount();
});

test(
  'a place comes to lie on another file system: the job stays with its agent until it can be moved',
  LIMITS,
  async (t) => {
    const site = await SpoolServices.make(t);
    const { handler, begun, open, runs } = gate(t);
    const agent = await site.start(site.agent(handler));
    await site.submit('job');
    await begun;
    const place = site.kit.path('completed/succeeded');
    const mount = mountTmpfs(1, place);
    open();
    await site.logged('error', /the end of a job could not be written.*EXDEV/);
    assert.deepEqual(site.kit.names('in-progress', agent.id as string), ['job']);
    mount.unmount();
    await site.has('completed/succeeded', 'job');
    assert.equal(runs.get('job'), 1);
  },
);

test(
  'a job that is a file system of its own is left where it is and named, and others are run',
  LIMITS,
  async (t) => {
    const site = await SpoolServices.make(t);
    site.kit.put('incoming/mounted', {});
    const mount = mountTmpfs(1, site.kit.path('incoming/mounted'));
    const then = Date.now() / 1000 - 60;
    site.kit.put('incoming/mounted', { 'prompt.json': '{}' });
    fs.utimesSync(site.kit.path('incoming/mounted/prompt.json'), then, then);
    const { handler, open } = gate(t);
    open();
    await site.start(site.agent(handler, { slots: 1 }));
    await site.submit('other');
    await site.has('completed/succeeded', 'other');
    await site.logged('critical', /"job_id":"mounted".*it lies on another file system/);
    await site.has('incoming', 'mounted');
    const [found] = await checkSpool(site.kit.spool);
    assert.deepEqual([found?.code, found?.path], ['UNMOVABLE', 'incoming/mounted']);
    for await (const each of findJobs(site.kit.spool, ['incoming']))
      assert.match((await seeJob(site.kit.spool, each)).problem ?? '', /another file system/);
    mount.unmount();
  },
);
