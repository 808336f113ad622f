/** What foreign programs and people may leave in a spool, on a real disk. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { deadOwner, makeSpoolKit, type SpoolKit } from '../../test/fakes/spool-kit.ts';
import { Actor } from './actor.ts';
import { commitJob, saveResult } from './commit.ts';
import { checkSpool } from './invariants.ts';
import { loadJob } from './load.ts';
import { locateJobs } from './locate.ts';
import { Heartbeats } from './owner.ts';
import { findJob, findJobs, seeJob } from './reads.ts';
import { sweepSpool } from './repair.ts';
import { openSpool } from './spool.ts';
import { submitJob } from './submit.ts';

const SETTLED = { settings: { settleMs: 0, maxPromptBytes: 1024 } };

/** Tries to run one job that is not fit, and another one that is. */
async function tryBoth(t: TestContext, kit: SpoolKit, bad: string): Promise<string> {
  const agent = await Actor.open(kit.spool, 'agent');
  t.after(() => agent.close());
  kit.put('incoming/good', { 'prompt.json': '{}' });
  const before = execFileSync('find', [kit.path('incoming', bad), '-ls'], { encoding: 'utf8' });
  const outcome = await loadJob(agent, bad);
  assert.equal(outcome.is, 'refused', bad);
  assert.equal(
    execFileSync('find', [kit.path('incoming', bad), '-ls'], { encoding: 'utf8' }),
    before,
    'left as it was',
  );
  const good = await loadJob(agent, 'good');
  assert.equal(good.is, 'loaded');
  if (good.is === 'loaded') {
    await saveResult(agent, good.envelope, 1);
    assert.equal(await commitJob(agent, good.envelope, 'succeeded'), 'committed');
  }
  const logged = kit.lines.find(({ level, job_id }) => level === 'critical' && job_id === bad);
  assert.ok(logged, 'it is in the log');
  const found = (await checkSpool(kit.spool)).filter(({ path }) => path === join('incoming', bad));
  assert.equal(found.length, 1, `check names it: ${JSON.stringify(found)}`);
  assert.ok(await problemIn(kit, bad), 'ls names it');
  return outcome.is === 'refused' ? `${found[0]?.code}: ${outcome.why}` : '';
}

/** What `ls` says of a waiting job. */
async function problemIn({ spool }: SpoolKit, name: string): Promise<string | undefined> {
  for await (const job of findJobs(spool, ['incoming']))
    if (job.name === name) return (await seeJob(spool, job)).problem;
  return undefined;
}

const isRoot = process.getuid?.() === 0;

const PROMPT = { 'prompt.json': '{"ask":1}' };

const BAD_FOLDERS: Readonly<Record<string, { put: (kit: SpoolKit) => void; says: RegExp }>> = {
  'no prompt.json': {
    put: (kit) => kit.put('incoming/bad', { 'other.txt': 'x' }),
    says: /^BAD_PROMPT: there is no prompt/,
  },
  'a prompt.json that is not JSON': {
    put: (kit) => kit.put('incoming/bad', { 'prompt.json': '{"ask":' }),
    says: /^BAD_PROMPT: prompt.json is not JSON/,
  },
  'a prompt.json that is not UTF-8': {
    put: (kit) => kit.put('incoming/bad', { 'prompt.json': Buffer.from([0x22, 0xff, 0x22]) }),
    says: /^BAD_PROMPT: prompt.json is not UTF-8/,
  },
  'a prompt.json of 1 GiB': {
    put: (kit) => {
      kit.put('incoming/bad', PROMPT);
      fs.truncateSync(kit.path('incoming/bad/prompt.json'), 2 ** 30);
    },
    says: /^BAD_PROMPT: prompt.json is longer than 1024 bytes/,
  },
  'a prompt.json that is a link': {
    put: (kit) => {
      kit.put('incoming/bad', {});
      fs.symlinkSync('/etc/hostname', kit.path('incoming/bad/prompt.json'));
    },
    says: /^BAD_PROMPT: prompt.json is a link/,
  },
  'a prompt.json that is a pipe': {
    put: (kit) => {
      kit.put('incoming/bad', {});
      spawnSync('mkfifo', [kit.path('incoming/bad/prompt.json')]);
    },
    says: /^BAD_PROMPT: prompt.json is no plain file/,
  },
  ...(isRoot && {
    'a prompt.json that is a device': {
      put: (kit: SpoolKit) => {
        kit.put('incoming/bad', {});
        execFileSync('mknod', [kit.path('incoming/bad/prompt.json'), 'c', '1', '5']);
      },
      says: /^BAD_PROMPT: prompt.json is no plain file/,
    },
  }),
  'a prompt.json that is a folder': {
    put: (kit) => fs.mkdirSync(kit.path('incoming/bad/prompt.json'), { recursive: true }),
    says: /^BAD_PROMPT: prompt.json is/,
  },
  'a job.json that is half written': {
    put: (kit) => kit.put('incoming/bad', { ...PROMPT, 'job.json': '{"status":"que' }),
    says: /^UNREADABLE_JOB: job.json is not JSON/,
  },
  'a job.json that is nested too deep to be written again': {
    put: (kit) => {
      const deep = `${'{"1":'.repeat(50_000)}1${'}'.repeat(50_000)}`;
      const job = `{"schema-version":"1.0.0","status":"queued","mine":${deep}}`;
      kit.put('incoming/bad', { ...PROMPT, 'job.json': job });
    },
    says: /^UNREADABLE_JOB: job.json is nested or filled too far: too deep/,
  },
  'a job.json of a newer version': {
    put: (kit) =>
      kit.put('incoming/bad', { ...PROMPT, 'job.json': '{"schema-version":"9.0.0","status":{}}' }),
    says: /^UNKNOWN_VERSION: job.json has the schema-version "9.0.0"/,
  },
  'a job.json with another status': {
    put: (kit) =>
      kit.put('incoming/bad', { ...PROMPT, 'job.json': '{"schema-version":"1.0.0","status":"failed"}' }),
    says: /^WRONG_PLACE: job.json says failed/,
  },
  'a file in the place of a folder': {
    put: (kit) => fs.writeFileSync(kit.path('incoming/bad'), '{}'),
    says: /^NOT_A_FOLDER: it is no folder/,
  },
  'a link in the place of a folder': {
    put: (kit) => {
      kit.put('../outside', PROMPT);
      fs.symlinkSync(kit.path('../outside'), kit.path('incoming/bad'));
    },
    says: /^NOT_A_FOLDER: it is no folder/,
  },
};

for (const [name, { put, says }] of Object.entries(BAD_FOLDERS)) {
  test(`${name}: the job stays as it is and is named, and others are run`, { timeout: 20_000 }, async (t) => {
    const kit = await makeSpoolKit(t, SETTLED);
    put(kit);
    assert.match(await tryBoth(t, kit, 'bad'), says);
  });
}

for (const bad of ['a\nb', '.hidden', '...', 'x'.repeat(251), 'x'.repeat(255)]) {
  test(`a name that cannot be used is left alone: ${JSON.stringify(bad.slice(0, 10))}`, async (t) => {
    const kit = await makeSpoolKit(t, SETTLED);
    kit.put(`incoming/${bad}`, PROMPT);
    assert.match(await tryBoth(t, kit, bad), /^BAD_NAME: its name cannot be used/);
  });
}

test('no name leads out of the spool', async (t) => {
  const kit = await makeSpoolKit(t, SETTLED);
  const person = await Actor.open(kit.spool, 'person');
  t.after(() => person.close());
  kit.put('../outside', PROMPT);
  const before = execFileSync('find', [kit.path('..'), '-ls'], { encoding: 'utf8' });
  for (const name of ['..', '.', '', '../outside', 'a/../../outside', '/etc', 'x'.repeat(255)]) {
    await assert.rejects(submitJob(person, { name, prompt: 1 }), { code: 'INVALID_PARAMS' });
    assert.equal(await findJob(kit.spool, name), undefined);
  }
  assert.equal(execFileSync('find', [kit.path('..'), '-ls'], { encoding: 'utf8' }), before);
});

test('a dead lock goes, whatever name it has', async (t) => {
  const kit = await makeSpoolKit(t, SETTLED);
  kit.put('in-progress/agent-1', {});
  for (const lock of ['.lock', '..lock', '...lock', 'job.lock'])
    kit.put(`incoming/${lock}`, { 'owner.json': deadOwner(kit, 'agent-1') });
  const watchdog = await Actor.open(kit.spool, 'watchdog');
  t.after(() => watchdog.close());
  await sweepSpool(watchdog, new Heartbeats(() => 0));
  assert.deepEqual(kit.names('incoming'), []);
});

test('a name that is not UTF-8 is named by check and ls, and keeps nobody from the others', async (t) => {
  const kit = await makeSpoolKit(t, SETTLED);
  fs.mkdirSync(Buffer.concat([Buffer.from(kit.path('incoming/')), Buffer.from([0x61, 0xff])]));
  const watchdog = await Actor.open(kit.spool, 'watchdog');
  t.after(() => watchdog.close());
  await sweepSpool(watchdog, new Heartbeats(() => 0));
  const found = await checkSpool(kit.spool);
  assert.deepEqual(
    found.map(({ code }) => code),
    ['BAD_NAME'],
  );
  assert.equal(await problemIn(kit, 'a\ufffd'), 'its name is not UTF-8');
});

test('links that a submitter has left in the folder of a job lead nobody outside', async (t) => {
  const kit = await makeSpoolKit(t, SETTLED);
  const outside = kit.path('../outside');
  fs.writeFileSync(outside, 'untouched');
  kit.put('incoming/job', PROMPT);
  for (const name of ['job.json.tmp', 'result.json.tmp', 'result.json'])
    fs.symlinkSync(outside, kit.path('incoming/job', name));
  const agent = await Actor.open(kit.spool, 'agent');
  t.after(() => agent.close());
  const outcome = await loadJob(agent, 'job');
  assert.equal(outcome.is, 'loaded');
  if (outcome.is !== 'loaded') return;
  assert.equal(outcome.envelope.runtime.isFinished, false);
  await saveResult(agent, outcome.envelope, { ok: true });
  assert.equal(await commitJob(agent, outcome.envelope, 'succeeded'), 'committed');
  assert.equal(fs.readFileSync(outside, 'utf8'), 'untouched');
  assert.equal(fs.readFileSync(kit.path('completed/succeeded/job/result.json'), 'utf8'), '{"ok":true}\n');
  assert.deepEqual(await checkSpool(kit.spool), []);
});

test('links in the place of the folders of actors lead nobody outside', async (t) => {
  const kit = await makeSpoolKit(t, SETTLED);
  for (const place of ['outside/project', 'elsewhere/work', 'taken/project'])
    kit.put(join('..', place), PROMPT);
  fs.symlinkSync(kit.path('../outside'), kit.path('in-progress/link'));
  fs.symlinkSync(kit.path('../elsewhere'), kit.path('tmp/link'));
  kit.put('tmp/actor', { 'owner.json': deadOwner(kit, 'actor') });
  fs.symlinkSync(kit.path('../taken'), kit.path('tmp/actor/incoming'));
  const watchdog = await Actor.open(kit.spool, 'watchdog');
  t.after(() => watchdog.close());
  let now = 0;
  const heartbeats = new Heartbeats(() => now);
  for (let round = 0; round < 3; round++) {
    await sweepSpool(watchdog, heartbeats);
    now += 10 * kit.spool.settings.foreignLockTtlMs;
  }
  for (const place of ['outside/project', 'elsewhere/work', 'taken/project'])
    assert.deepEqual(kit.names('..', place), ['prompt.json'], place);
  assert.equal(await findJob(kit.spool, 'project'), undefined, 'nor by a kill of a person');
  assert.deepEqual((await locateJobs(kit.spool, ['project'])).size, 0, 'nor by a brain');
});

test('a history.jsonl that is a link is not followed: the job goes back to where it was', async (t) => {
  const kit = await makeSpoolKit(t, SETTLED);
  const outside = kit.path('../outside');
  fs.writeFileSync(outside, 'untouched');
  kit.put('incoming/job', PROMPT);
  fs.symlinkSync(outside, kit.path('incoming/job/history.jsonl'));
  const agent = await Actor.open(kit.spool, 'agent');
  t.after(() => agent.close());
  const why = 'a file in it that has to be written is a link';
  assert.deepEqual(await loadJob(agent, 'job'), { is: 'refused', why });
  assert.equal(fs.readFileSync(outside, 'utf8'), 'untouched');
  assert.deepEqual(kit.names('incoming'), ['job']);
});

test('a second folder with the name of a job that has ended is not run', async (t) => {
  const kit = await makeSpoolKit(t, SETTLED);
  kit.put('completed/killed/bad', { ...PROMPT, 'job.json': '{"schema-version":"1.0.0","status":"killed"}' });
  kit.put('incoming/bad', PROMPT);
  const agent = await Actor.open(kit.spool, 'agent');
  t.after(() => agent.close());
  assert.deepEqual(await loadJob(agent, 'bad'), { is: 'refused', why: 'a job of this name lies in killed' });
  assert.deepEqual(
    (await checkSpool(kit.spool)).map(({ code }) => code),
    ['TWIN'],
  );
});

test('a folder that is being made in place counts when its prompt.json has not changed for a while', async (t) => {
  const kit = await makeSpoolKit(t, { settings: { settleMs: 60_000 } });
  const agent = await Actor.open(kit.spool, 'agent');
  t.after(() => agent.close());
  kit.put('incoming/job', PROMPT);
  const outcome = await loadJob(agent, 'job');
  assert.ok(outcome.is === 'unsettled' && outcome.waitMs > 0 && outcome.waitMs <= 60_000);
  const then = Date.now() / 1000 - 61;
  fs.utimesSync(kit.path('incoming/job/prompt.json'), then, then);
  assert.equal((await loadJob(agent, 'job')).is, 'loaded');
});

test('a prompt.json from slightly in the future is fresh; one from far in the future has the time of another clock', async (t) => {
  const kit = await makeSpoolKit(t, { settings: { settleMs: 60_000 } });
  const agent = await Actor.open(kit.spool, 'agent');
  t.after(() => agent.close());
  kit.put('incoming/job', PROMPT);
  const touch = (aheadSec: number): void =>
    fs.utimesSync(kit.path('incoming/job/prompt.json'), 0, Date.now() / 1000 + aheadSec);
  touch(30);
  assert.deepEqual(await loadJob(agent, 'job'), { is: 'unsettled', waitMs: 60_000 });
  touch(100);
  assert.equal((await loadJob(agent, 'job')).is, 'loaded');
});

test('a folder whose prompt.json is still to come is not refused until it has been there for a while', async (t) => {
  const kit = await makeSpoolKit(t, { settings: { settleMs: 60_000 } });
  const agent = await Actor.open(kit.spool, 'agent');
  t.after(() => agent.close());
  kit.put('incoming/job', { 'large.bin': 'the first half' });
  assert.equal((await loadJob(agent, 'job')).is, 'unsettled');
  const then = Date.now() / 1000 - 61;
  fs.utimesSync(kit.path('incoming/job'), then, then);
  assert.deepEqual(await loadJob(agent, 'job'), { is: 'refused', why: 'there is no prompt.json' });
});

test('a file in the place of a lock keeps a job from being run, and both are named', async (t) => {
  const kit = await makeSpoolKit(t, SETTLED);
  const agent = await Actor.open(kit.spool, 'agent');
  t.after(() => agent.close());
  kit.put('incoming/job', PROMPT);
  fs.writeFileSync(kit.path('incoming/job.lock'), '4711');
  assert.deepEqual(await loadJob(agent, 'job'), { is: 'refused', why: 'its lock is no folder' });
  assert.ok(kit.lines.some(({ level, job_id }) => level === 'critical' && job_id === 'job'));
  assert.equal(await problemIn(kit, 'job'), 'its lock is no folder');
  assert.deepEqual(
    (await checkSpool(kit.spool)).map(({ code, path }) => [code, path]),
    [['NOT_A_FOLDER', 'incoming/job.lock']],
  );
  assert.equal(fs.readFileSync(kit.path('incoming/job.lock'), 'utf8'), '4711');
});

for (const folder of ['incoming', 'in-progress', 'jobs/stale', 'tmp'])
  test(`a file in the place of ${folder}: the spool is not opened, and check names it`, async (t) => {
    const kit = await makeSpoolKit(t, SETTLED);
    fs.rmdirSync(kit.path(folder));
    fs.writeFileSync(kit.path(folder), 'a note');
    await assert.rejects(openSpool({ ...kit.spool, folder: kit.folder }), { code: 'SPOOL_INVALID' });
    assert.deepEqual(
      (await checkSpool(kit.spool)).map(({ code, path }) => [code, path]),
      [['FOLDER_MISSING', folder]],
    );
    assert.equal(fs.readFileSync(kit.path(folder), 'utf8'), 'a note');
  });

test('files of others in the folders of a spool are left where they are', async (t) => {
  const kit = await makeSpoolKit(t, SETTLED);
  kit.put('in-progress/foreign', {});
  for (const path of ['in-progress/note', 'in-progress/foreign/note', 'tmp/note', 'incoming/note.lock'])
    fs.writeFileSync(kit.path(path), 'x');
  kit.put('tmp/being-made', PROMPT);
  const watchdog = await Actor.open(kit.spool, 'watchdog');
  t.after(() => watchdog.close());
  let now = 0;
  const heartbeats = new Heartbeats(() => now);
  for (let round = 0; round < 3; round++) {
    await sweepSpool(watchdog, heartbeats);
    now += 10 * kit.spool.settings.foreignLockTtlMs;
  }
  assert.deepEqual(kit.names('incoming'), ['note.lock']);
  assert.deepEqual(kit.names('in-progress'), ['foreign', 'note']);
  assert.deepEqual(kit.names('in-progress/foreign'), ['note']);
  assert.deepEqual(
    kit.names('tmp').filter((name) => name !== watchdog.id),
    ['being-made', 'note'],
  );
  assert.deepEqual(kit.names('tmp/being-made'), ['prompt.json']);
});
