/** Restored backups and copied folders beside executors that remember more than they do. */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { createOrchestrator } from '../../src/app/library.ts';
import type { Disk } from '../../src/kit/env/env.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { CommandKit, sh, until } from '../fakes/command-kit.ts';
import { copyFolder } from '../fakes/copy-folder.ts';
import { hookedDisk } from './flow-kit.ts';

type Brain = Awaited<ReturnType<typeof createOrchestrator>>;

/** A brain with a command that writes its payload to the ledger and gives it back. */
class Site {
  readonly kit: CommandKit;
  readonly data: string;
  readonly backup: string;
  readonly #t: TestContext;

  constructor(t: TestContext) {
    this.#t = t;
    this.kit = new CommandKit(t);
    this.data = join(this.kit.root, 'data');
    this.backup = join(this.kit.root, 'backup');
  }

  async start(options: { isCopy?: boolean; folder?: string; data?: string } = {}): Promise<Brain> {
    const { isCopy = false, folder = this.kit.folder, data = this.data } = options;
    // One write per line: two commands may run at once.
    const work = sh(`body=$(cat); echo "$body" >> ${this.kit.ledger}; printf %s "$body"`);
    const backend = this.kit.backend(work, { paid: true, folder, isCopy });
    const brain = await createOrchestrator({ data, backends: [backend], isCopy });
    this.#t.after(() => brain.stop());
    return brain;
  }

  /** Puts the backup in the place of the data, as a tool does that writes into the same files. */
  restore(): void {
    fs.rmSync(this.data, { recursive: true });
    copyFolder(this.backup, this.data);
  }
}

const submit = (brain: Brain, id: string, body: string): Promise<unknown> =>
  brain.submit({ job_id: id, type: 'work', payload: body });

const resultOf = async (brain: Brain, id: string): Promise<unknown> =>
  ((await brain.wait(id)).result as { text?: string } | undefined)?.text;

const problemOf = (brain: Brain): string | undefined => brain.reads.backends()[0]?.problem;

test('a restored store with the epoch that the executor knows is told, and gives no other result', async (t) => {
  const site = new Site(t);
  const first = await site.start();
  await submit(first, 'before', 'kept');
  assert.equal(await resultOf(first, 'before'), '"kept"');
  await first.stop();
  copyFolder(site.data, site.backup);
  const second = await site.start();
  await submit(second, 'job', 'one');
  assert.equal(await resultOf(second, 'job'), '"one"');
  await second.stop();
  site.restore();

  const restored = await site.start();
  await submit(restored, 'job', 'two');
  assert.match(await until(() => problemOf(restored)), /obeyed a later opening/);
  assert.ok(restored.reads.isDiverged);
  assert.equal(restored.failure, undefined, 'it goes on with its other backends');
  await until(() => restored.reads.isWaiting('job') || undefined);
  await restored.stop();

  const copy = await site.start({ isCopy: true });
  assert.equal(await resultOf(copy, 'before'), '"kept"');
  await copy.resolve('job', { as: 'retry' }).catch(() => undefined);
  assert.equal(await resultOf(copy, 'job'), '"two"');
  assert.equal(problemOf(copy), undefined);
});

test('a restored store whose epoch has passed the one that the executor knows is told', async (t) => {
  const site = new Site(t);
  await (await site.start()).stop();
  copyFolder(site.data, site.backup);
  const second = await site.start();
  await submit(second, 'job', 'one');
  await second.wait('job');
  await second.stop();
  site.restore();
  // Opened without its executor, the store counts up: nobody can refuse it for its epoch then.
  for (let opening = 0; opening < 3; opening++) {
    const brain = await createOrchestrator({ data: site.data, backends: [] });
    await brain.stop();
  }
  const restored = await site.start();
  assert.match(await until(() => problemOf(restored)), /does not know/);
});

test('a restored store starts nothing on an executor that knows more, and says so over restarts', async (t) => {
  const site = new Site(t);
  const first = await site.start();
  await first.stop();
  // The jobs wait in the backup, for a backend that is not there.
  const waiting = await createOrchestrator({ data: site.data, backends: [] });
  await submit(waiting, 'one', 'one');
  await submit(waiting, 'two', 'two');
  await waiting.stop();
  copyFolder(site.data, site.backup);
  const second = await site.start();
  for (const id of ['one', 'two']) await second.wait(id);
  await second.stop();
  // Their results were taken, and the executor has forgotten them.
  for (const name of fs.readdirSync(join(site.kit.folder, 'executions')))
    fs.rmSync(join(site.kit.folder, 'executions', name), { recursive: true });
  site.restore();
  for (let life = 0; life < 4; life++) {
    const restored = await site.start();
    await until(() => problemOf(restored));
    await until(() => restored.reads.backends()[0]?.up === false);
    await restored.stop();
  }
  assert.deepEqual(site.kit.runs().sort(), ['"one"', '"two"']);
});

test('a copy whose first start was killed is still a copy', async (t) => {
  const site = new Site(t);
  await (await site.start()).stop();
  const data = join(site.kit.root, 'copied-data');
  const folder = join(site.kit.root, 'copied-executions');
  fs.cpSync(site.data, data, { recursive: true });
  fs.cpSync(site.kit.folder, folder, { recursive: true });
  const env = { ...realEnv(), disk: dyingDisk(data) };
  // It dies before its own owner is durable.
  const killed = createOrchestrator({ data, backends: [], isCopy: true, env });
  await assert.rejects(killed);
  await assert.rejects(site.start({ data, folder }), { code: 'FOLDER_COPIED' });
  await site.start({ data, folder, isCopy: true });
});

/** A disk whose log cannot be synced any more. */
function dyingDisk(folder: string): Disk {
  return hookedDisk((path, file) => {
    if (path.startsWith(folder) && path.endsWith('.log'))
      file.datasync = async () => Promise.reject(Object.assign(new Error('gone'), { code: 'EIO' }));
    return file;
  });
}

test('a backup of the same opening is told by its tokens: another body is never answered for', async (t) => {
  const site = new Site(t);
  const first = await site.start();
  await submit(first, 'before', 'kept');
  await first.wait('before');
  copyFolder(site.data, site.backup, ['lock', 'history.sqlite', 'history.sqlite-wal', 'history.sqlite-shm']);
  await submit(first, 'job', 'one');
  assert.equal(await resultOf(first, 'job'), '"one"');
  await first.stop();
  site.restore();
  const restored = await site.start();
  await submit(restored, 'job', 'two');
  assert.equal(await resultOf(restored, 'job'), '"two"');
  assert.match(problemOf(restored) ?? '', /another body under the token job:1/);
  assert.deepEqual(site.kit.runs(), ['"kept"', '"one"', '"two"']);
});

test('a copied data folder is refused, and as a copy it leaves the original alone', async (t) => {
  const site = new Site(t);
  const go = join(site.kit.root, 'go');
  const work = sh(`echo ran >> ${site.kit.ledger}; until [ -e ${go} ]; do sleep 0.02; done; echo done`);
  const original = await createOrchestrator({
    data: site.data,
    backends: [site.kit.backend(work, { paid: true })],
  });
  t.after(() => original.stop());
  await submit(original, 'job', 'one');
  await until(() => site.kit.runs().length === 1);

  const data = join(site.kit.root, 'copied-data');
  const folder = join(site.kit.root, 'copied-executions');
  fs.cpSync(site.data, data, { recursive: true, filter: (path) => !/lock|history/.test(path) });
  fs.cpSync(site.kit.folder, folder, { recursive: true });
  await assert.rejects(site.start({ data, folder }), { code: 'FOLDER_COPIED' });

  const copy = await site.start({ data, folder, isCopy: true });
  await until(async () => (await copy.get('job')).state === 'stale');
  fs.writeFileSync(go, '');
  assert.equal(await resultOf(original, 'job'), 'done\n', 'the original was not disturbed');
  assert.equal((await copy.get('job')).state, 'stale', 'paid work is held, and not run again');
  assert.deepEqual(site.kit.runs(), ['ran']);
});
