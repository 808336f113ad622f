import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { realEnv } from '../../kit/env/real.ts';
import { createLogger } from '../../kit/logger.ts';
import { processesWith } from '../../kit/process/identity.ts';
import type { SlotRecord } from './layout.ts';
import { ProvisionFolder } from './provision-folder.ts';
import { Slot, type SlotContext } from './slot.ts';

const env = realEnv();
const aMoment = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 10));

/** A folder with its context; `pids` are all processes that were started from it. */
async function setUp(t: TestContext, graceMs?: number) {
  const path = mkdtempSync(join(tmpdir(), 'orchd-slot-'));
  const folder = await ProvisionFolder.open(env, path);
  const { layout, registry } = folder;
  const lines: string[] = [];
  const logger = createLogger({ write: (line) => lines.push(line), now: () => 0 });
  const context: SlotContext = { env, layout, registry, logger, graceMs, onExit: () => undefined };
  const pids = (): number[] => processesWith('ORCHD_PROVISION_NAME', `${registry}/p.1`);
  t.after(async () => {
    for (const pid of pids()) process.kill(pid, 'SIGKILL');
    await folder.close();
    rmSync(path, { recursive: true, force: true, maxRetries: 5 });
  });
  return { folder, context, pids, lines };
}

const RECORD: SlotRecord = { v: 1, pool: 'p', n: 1, poolSince: 7, start: '' };
const command = (script: string) => ({ argv: ['sh', '-c', script], cwd: tmpdir(), env: {} });

/** Looks until nothing of it is left. */
async function gone(slot: Slot): Promise<void> {
  while (await slot.look()) await aMoment();
}

test('a process that ends by itself is due again only after a pause, and when none of its children lives', async (t) => {
  const { context, pids, lines } = await setUp(t);
  const slot = new Slot(context, RECORD);
  // The child has a session of its own, so that the end of its parent does not reach it.
  await slot.start(command('setsid sleep 600 & exit 3'));
  while (slot.lives) {
    await slot.look();
    await aMoment();
  }
  assert.equal(slot.isDue, false);
  assert.equal(slot.view(7).is, 'down');
  while (!slot.isDue) {
    assert.equal(await slot.look(), true);
    await aMoment();
  }
  assert.deepEqual(pids(), []);
  assert.match(lines.join(''), /"reason":"it has ended by itself with code 3","count":1/);
});

test('a program that is not there rests as one that has failed', async (t) => {
  const { context } = await setUp(t);
  const slot = new Slot(context, RECORD);
  await slot.start({ argv: ['/no/such/program'], cwd: tmpdir(), env: {} });
  assert.deepEqual([slot.lives, slot.isDue], [false, false]);
});

test('one that does not finish is killed when its grace time is over, and never without one', async (t) => {
  const stubborn = 'trap "" TERM; while :; do sleep 0.02; done';
  const { context, pids } = await setUp(t);
  const patient = new Slot(context, RECORD);
  await patient.start(command(stubborn));
  await patient.end('finish');
  for (let looks = 0; looks < 20; looks++) assert.equal(await patient.look(), true);
  assert.ok(pids().length > 0);
  const hurried = new Slot({ ...context, graceMs: 0 }, patient.record);
  await hurried.adopt();
  await gone(hurried);
  assert.deepEqual(pids(), []);
  assert.deepEqual(readdirSync(context.layout.processes), []);
});

test('the signal to finish is sent once, also by a successor', async (t) => {
  const { context, folder } = await setUp(t);
  const slot = new Slot(context, RECORD);
  const file = join(context.layout.folder, 'signals');
  await slot.start(command(`trap "echo x >> ${file}" TERM; touch ${file}; while :; do sleep 0.02; done`));
  while (!readdirSync(context.layout.folder).includes('signals')) await aMoment();
  await slot.end('finish');
  await slot.end('finish');
  const [record] = await folder.records(env, () => undefined);
  assert.equal(record?.ending?.isTold, true);
  const successor = new Slot(context, record ?? RECORD);
  await successor.adopt();
  while ((await env.disk.stat(file))?.size === 0) await aMoment();
  assert.equal(successor.lives, true);
  await successor.end('kill');
  await gone(successor);
  assert.equal((await env.disk.stat(file))?.size, 2);
});

test('a process whose pid was never written is found by its successor', async (t) => {
  const { context, pids } = await setUp(t);
  const slot = new Slot(context, RECORD);
  await slot.start(command('exec sleep 600'));
  const successor = new Slot(context, { ...slot.record, process: undefined });
  await successor.adopt();
  assert.equal(successor.lives, true);
  assert.deepEqual([successor.record.process?.pid], pids());
});

test('a record that cannot be read has its processes ended, for nobody could manage them', async (t) => {
  const { context, folder, pids } = await setUp(t);
  const slot = new Slot(context, RECORD);
  await slot.start(command('exec sleep 600'));
  const file = await env.disk.open(join(context.layout.processes, 'p.1.json'), 'create');
  await file.write(0, Buffer.from('{"v":'));
  await file.close();
  const lost: string[] = [];
  assert.deepEqual(await folder.records(env, (name) => lost.push(name)), []);
  assert.deepEqual(lost, ['p.1']);
  while (pids().length > 0) await aMoment();
});
