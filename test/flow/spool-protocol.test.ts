/** What agents, watchdogs and managers leave on a real disk, by the words of the requirements. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { functionHandler, type JobHandler } from '../../src/daemons/spool/handler.ts';
import { Actor } from '../../src/spool/actor.ts';
import { commitJob, saveResult } from '../../src/spool/commit.ts';
import type { Lifecycle } from '../../src/spool/envelope.ts';
import { checkSpool } from '../../src/spool/invariants.ts';
import { changeStatus } from '../../src/spool/job-folder.ts';
import { loadJob } from '../../src/spool/load.ts';
import { Heartbeats } from '../../src/spool/owner.ts';
import { sweepSpool } from '../../src/spool/repair.ts';
import { killWaiting, retryJob } from '../../src/spool/retry.ts';
import { mayChangeStatus, SPOOL_STATUSES } from '../../src/spool/states.ts';
import { submitJob } from '../../src/spool/submit.ts';
import { deadOwner, makeSpoolKit } from '../fakes/spool-kit.ts';
import { jsonLines } from './cli-process.ts';
import { SpoolServices } from './spool-services.ts';
import { SpoolSite } from './spool-site.ts';

const LIMITS = { timeout: 120_000 };
const PROMPT = '{"ask" : "as it was written"}';
const NEWER = '{"schema-version":"9.0.0", "status":"queued"}';

const job = (status: string, more: object = {}): string =>
  JSON.stringify({ status, 'schema-version': '1.0.0', retry_count: 0, max_retries: 2, ...more });

const contentOf = (folder: string): Record<string, string> =>
  Object.fromEntries(
    fs
      .readdirSync(folder)
      .sort()
      .map((name) => [
        name,
        `${fs.statSync(join(folder, name)).mtimeMs} ${fs.readFileSync(join(folder, name))}`,
      ]),
  );

test(
  '[FARRO-1] jobs are folders in incoming, in-progress/<agent>, completed/succeeded|failed|killed and jobs/stale',
  LIMITS,
  async (t) => {
    const kit = await makeSpoolKit(t, { settings: { settleMs: 0, maxRetries: 5 } });
    const top = fs.readdirSync(kit.folder, { recursive: true }).sort();
    const places = ['completed/failed', 'completed/killed', 'completed/succeeded', 'jobs/stale'];
    assert.deepEqual(top, ['completed', 'in-progress', 'incoming', 'jobs', 'tmp', ...places].sort());

    kit.put('incoming/job', { 'prompt.json': PROMPT });
    const promptAt = (place: string): string => {
      const path = kit.path(place, 'job/prompt.json');
      return `${fs.statSync(path).ino} ${fs.statSync(path).mtimeMs} ${fs.readFileSync(path)}`;
    };
    const statusAt = (place: string): string =>
      (JSON.parse(fs.readFileSync(kit.path(place, 'job/job.json'), 'utf8')) as Lifecycle).status;
    const before = promptAt('incoming');
    const [person, first] = [await Actor.open(kit.spool, 'person'), await Actor.open(kit.spool, 'agent')];
    const seen: string[] = [];
    const look = (place: string): void => {
      assert.deepEqual(promptAt(place), before, `prompt.json in ${place}`);
      seen.push(`${place.replace(first.id, '<agent>')}: ${statusAt(place)}`);
    };
    const loaded = async (agent: Actor): Promise<void> => {
      const outcome = await loadJob(agent, 'job');
      assert.ok(outcome.is === 'loaded');
      look(`in-progress/${agent.id}`);
      if (agent === first) await commitJob(agent, outcome.envelope, 'failed');
    };
    await loaded(first);
    look('completed/failed');
    await retryJob(person, 'failed', 'job');
    look('incoming');
    await killWaiting(person, 'incoming', 'job', 'by order');
    look('completed/killed');

    fs.renameSync(kit.path('completed/killed/job'), kit.path('incoming/job'));
    fs.writeFileSync(kit.path('incoming/job/job.json'), job('queued'));
    const outcome = await loadJob(first, 'job');
    assert.ok(outcome.is === 'loaded');
    fs.writeFileSync(kit.path('tmp', first.id, 'owner.json'), deadOwner(kit, first.id));
    const watchdog = await Actor.open(kit.spool, 'watchdog');
    await sweepSpool(watchdog, new Heartbeats(() => 0));
    look('jobs/stale');
    await retryJob(person, 'stale', 'job');
    const second = await Actor.open(kit.spool, 'agent');
    const last = await loadJob(second, 'job');
    assert.ok(last.is === 'loaded');
    await saveResult(second, last.envelope, 1);
    await commitJob(second, last.envelope, 'succeeded');
    look('completed/succeeded');
    assert.deepEqual(seen, [
      'in-progress/<agent>: in-progress',
      'completed/failed: failed',
      'incoming: queued',
      'completed/killed: killed',
      'jobs/stale: stale',
      'completed/succeeded: succeeded',
    ]);
  },
);

test(
  '[FARRO-2] a job in memory is a prompt that is never written, the lifecycle in job.json, and a runtime that is not',
  LIMITS,
  async (t) => {
    const kit = await makeSpoolKit(t, { settings: { settleMs: 0 } });
    kit.put('incoming/job', { 'prompt.json': PROMPT });
    const agent = await Actor.open(kit.spool, 'agent');
    t.after(() => agent.close());
    const outcome = await loadJob(agent, 'job');
    assert.ok(outcome.is === 'loaded');
    const { envelope } = outcome;
    assert.deepEqual(Object.keys(envelope).sort(), ['lifecycle', 'prompt', 'runtime']);
    assert.deepEqual(envelope.prompt, JSON.parse(PROMPT));
    const written = (folder: string): unknown =>
      JSON.parse(fs.readFileSync(join(folder, 'job.json'), 'utf8'));
    assert.deepEqual(written(envelope.runtime.folder), JSON.parse(JSON.stringify(envelope.lifecycle)));
    (envelope.prompt as { ask: string }).ask = 'changed by a handler';
    await saveResult(agent, envelope, 1);
    await commitJob(agent, envelope, 'succeeded');
    const folder = kit.path('completed/succeeded/job');
    assert.equal(fs.readFileSync(join(folder, 'prompt.json'), 'utf8'), PROMPT);
    const fields = [
      'agent',
      'attempt',
      'changed_at',
      'max_retries',
      'moves',
      'retry_count',
      'schema-version',
      'status',
    ];
    assert.deepEqual(Object.keys(written(folder) as object).sort(), fields);
    const all = fs.readdirSync(folder).map((name) => fs.readFileSync(join(folder, name), 'utf8'));
    for (const secret of [envelope.runtime.lock.nonce, envelope.runtime.folder, 'isFinished'])
      assert.ok(!all.join().includes(secret), `${secret} is written`);
  },
);

test(
  '[FARRO-3] [FARRO-5] a status that the table does not allow is not written, and a job is dropped as queued',
  LIMITS,
  async (t) => {
    const kit = await makeSpoolKit(t);
    const actor = await Actor.open(kit.spool, 'person');
    t.after(() => actor.close());
    for (const from of SPOOL_STATUSES)
      for (const to of SPOOL_STATUSES) {
        kit.put('tmp/job', { 'job.json': job(from) });
        const before = contentOf(kit.path('tmp/job'));
        const lifecycle = JSON.parse(job(from)) as Lifecycle;
        const change = changeStatus(actor, kit.path('tmp/job'), { ...lifecycle, moves: 0 }, { from, to });
        if (mayChangeStatus(from, to)) await change;
        else {
          await assert.rejects(change, /illegal change of status/, `${from} ${to}`);
          assert.deepEqual(contentOf(kit.path('tmp/job')), before);
        }
      }
    await submitJob(actor, { name: 'job', prompt: 1, lifecycle: { status: 'succeeded' } });
    assert.match(fs.readFileSync(kit.path('incoming/job/job.json'), 'utf8'), /"status":"queued"/);
  },
);

test(
  '[FARRO-4] a job that somebody else has locked is left to them, and the next one is run',
  LIMITS,
  async (t) => {
    const site = await SpoolServices.make(t);
    await site.submit('first', 'second');
    const other = await Actor.open(site.kit.spool, 'agent', 'other');
    site.kit.put('incoming/first.lock', { 'owner.json': JSON.stringify(other.ownerWith('n')) });
    await site.start(
      site.agent(
        functionHandler((prompt) => prompt),
        { slots: 1 },
      ),
    );
    await site.has('completed/succeeded', 'second');
    await site.has('incoming', 'first', 'first.lock');
  },
);

test('[FARRO-4] a job whose status is not queued is not claimed, and its lock is gone', LIMITS, async (t) => {
  const kit = await makeSpoolKit(t, { settings: { settleMs: 0 } });
  const agent = await Actor.open(kit.spool, 'agent');
  t.after(() => agent.close());
  for (const status of SPOOL_STATUSES) {
    kit.put(`incoming/${status}`, { 'prompt.json': PROMPT, 'job.json': job(status) });
    const expected = status === 'queued' ? 'loaded' : 'refused';
    assert.equal((await loadJob(agent, status)).is, expected, status);
  }
  assert.deepEqual(
    kit.names('incoming').filter((name) => name.endsWith('.lock')),
    ['queued.lock'],
  );
});

const EXAMPLES = [
  ['sh', 'spool-agent.sh'],
  ['python3', 'spool_agent.py'],
] as const;

for (const agent of EXAMPLES)
  test(
    `${agent[1]} keeps a job.json readable that a person has written over several lines`,
    LIMITS,
    async (t) => {
      const kit = await makeSpoolKit(t);
      const written = { status: 'queued', 'schema-version': '1.0.0', max_retries: 7 };
      kit.put('incoming/job', { 'prompt.json': PROMPT, 'job.json': JSON.stringify(written, null, 2) });
      const example = join(import.meta.dirname, '../../examples', agent[1]);
      execFileSync(agent[0], [example, kit.folder, 'cat']);
      const after = JSON.parse(
        fs.readFileSync(kit.path('completed/succeeded/job/job.json'), 'utf8'),
      ) as object;
      assert.deepEqual(
        { ...after, agent: '' },
        { ...written, status: 'succeeded', moves: 2, attempt: 1, agent: '' },
      );
      assert.deepEqual(await checkSpool(kit.spool), []);
    },
  );

for (const [program, file] of EXAMPLES)
  test(`${file} leaves what it may not run, and runs the others`, LIMITS, async (t) => {
    const kit = await makeSpoolKit(t);
    const lifecycles = { half: '{', versionless: '{"status":"queued"}', 'no object': 'null' };
    for (const [name, job] of Object.entries(lifecycles))
      kit.put(`incoming/${name}`, { 'prompt.json': PROMPT, 'job.json': job });
    kit.put('incoming/link', {});
    fs.symlinkSync('/etc/hostname', kit.path('incoming/link/prompt.json'));
    kit.put('incoming/sound', { 'prompt.json': PROMPT });
    execFileSync(program, [join(import.meta.dirname, '../../examples', file), kit.folder, 'cat']);
    assert.deepEqual(kit.names('completed/succeeded'), ['sound']);
    assert.deepEqual(kit.names('incoming'), [...Object.keys(lifecycles), 'link'].sort());
  });

test('[FARRO-5] a job with a complete result.json is not run again, whoever has it', LIMITS, async (t) => {
  const site = await SpoolServices.make(t);
  const { kit } = site;
  const done = { 'prompt.json': PROMPT, 'result.json': '{"of":"the first"}' };
  kit.put('incoming/waiting', { ...done, 'job.json': job('queued') });
  kit.put('jobs/stale/stale', { ...done, 'job.json': job('stale') });
  kit.put('in-progress/agent-dead/running', { ...done, 'job.json': job('in-progress') });
  kit.put('incoming/running.lock', { 'owner.json': deadOwner(kit, 'agent-dead') });
  kit.put('incoming/torn', { ...done, 'result.json': '{"of":"the fi', 'job.json': job('queued') });
  const ran: string[] = [];
  const handler: JobHandler = async ({ name }) => {
    ran.push(name);
    return { ok: true, result: 'of the second' };
  };
  for (const service of [site.watchdog(), site.manager(), site.agent(handler)]) await site.start(service);
  await site.has('completed/succeeded', 'running', 'stale', 'torn', 'waiting');
  assert.deepEqual(ran, ['torn']);
  for (const name of ['running', 'stale', 'waiting'])
    assert.deepEqual(site.json(`completed/succeeded/${name}/result.json`), { of: 'the first' });
});

test(
  '[FARRO-6] a watchdog removes dead locks, moves what has ended to its place, and marks all other jobs of the dead as stale',
  LIMITS,
  async (t) => {
    const site = await SpoolServices.make(t);
    const { kit } = site;
    const living = await Actor.open(kit.spool, 'agent', 'living');
    kit.put('incoming/waiting', { 'prompt.json': PROMPT, 'job.json': job('queued') });
    kit.put('incoming/locked', { 'prompt.json': PROMPT, 'job.json': job('queued') });
    kit.put('incoming/locked.lock', { 'owner.json': JSON.stringify(living.ownerWith('n')) });
    const ended = {
      succeeded: 'completed/succeeded',
      failed: 'completed/failed',
      killed: 'completed/killed',
    };
    const left = { ...ended, stale: 'jobs/stale', queued: 'jobs/stale', 'in-progress': 'jobs/stale' };
    for (const status of Object.keys(left)) {
      const files = { 'prompt.json': PROMPT, 'job.json': job(status) };
      kit.put(
        `in-progress/agent-dead/was-${status}`,
        status === 'succeeded' ? { ...files, 'result.json': '1' } : files,
      );
      kit.put(`in-progress/${living.id}/has-${status}`, files);
    }
    for (const name of ['waiting', ...Object.keys(left).map((status) => `was-${status}`)])
      kit.put(`incoming/${name}.lock`, { 'owner.json': deadOwner(kit, 'agent-dead') });
    const waiting = contentOf(kit.path('incoming/waiting'));
    await site.start(site.watchdog());
    await site.has('incoming', 'locked', 'locked.lock', 'waiting');
    assert.deepEqual(contentOf(kit.path('incoming/waiting')), waiting, 'a job that waits is not touched');
    for (const [status, place] of Object.entries(left)) {
      const now = place === 'jobs/stale' ? 'stale' : status;
      assert.equal(site.json(`${place}/was-${status}/job.json`)['status'], now, status);
    }
    assert.deepEqual(
      kit.names('in-progress', living.id),
      Object.keys(left)
        .map((status) => `has-${status}`)
        .sort(),
    );
  },
);

test(
  '[FARRO-8] each change of a job of a spool is one JSON line on standard output, with the id of its attempt',
  LIMITS,
  async (t) => {
    const site = await SpoolSite.make(t);
    const failsOnce = `[ "$(grep -c "begin $JOB_ID" ${site.ledger})" = 2 ] || exit 1`;
    const words = ['up', '--interval', '50ms', '--retry-delay', '1ms', ...site.script(failsOnce)];
    const all = await site.daemon(words);
    await site.submit('job');
    await all.saw('out', /"to":"succeeded"/);
    all.child.kill('SIGTERM');
    const lines = jsonLines((await all.ended).out).filter(({ job_id }) => job_id === 'job');
    const moves = lines.map(({ event, correlation_id }) => {
      const { type, from, to } = event as { type: string; from: string; to: string };
      return `${type} ${from} ${to} ${correlation_id}`;
    });
    assert.deepEqual(moves, [
      'state_transition queued in-progress job.1',
      'state_transition in-progress failed job.1',
      'state_transition failed queued job.1',
      'state_transition queued in-progress job.2',
      'state_transition in-progress succeeded job.2',
    ]);
    const actors = ['agent', 'agent', 'manager', 'agent', 'agent'];
    for (const [at, line] of lines.entries()) {
      assert.equal(line['level'], 'info');
      assert.equal(typeof line['message'], 'string');
      assert.equal(typeof line['app'], 'string');
      assert.ok(!Number.isNaN(Date.parse(String(line['timestamp']))));
      assert.match(String(line['actor']), new RegExp(`^${actors[at]}/${actors[at]}-`));
    }
  },
);

test(
  '[FARRO-9] job.json has a schema-version; one of another version is unlocked, named in the log and left to the byte',
  LIMITS,
  async (t) => {
    const site = await SpoolServices.make(t);
    const { kit } = site;
    const newer = { 'prompt.json': PROMPT, 'job.json': NEWER, 'extra.bin': 'x' };
    const places = ['incoming', 'jobs/stale', 'completed/failed', 'in-progress/agent-dead'];
    for (const [n, place] of places.entries()) kit.put(`${place}/newer-${n}`, newer);
    kit.put('incoming/newer-3.lock', { 'owner.json': deadOwner(kit, 'agent-dead') });
    const before = places.map((place, n) => contentOf(kit.path(place, `newer-${n}`)));
    for (const service of [site.watchdog(), site.manager(), site.agent(functionHandler(() => 1))])
      await site.start(service);
    await site.submit('good');
    await site.has('completed/succeeded', 'good');
    for (const n of places.keys()) await site.logged('critical', new RegExp(`"job_id":"newer-${n}".*9.0.0`));
    await site.until(
      () => !kit.names('incoming').includes('newer-0.lock') && !kit.names('incoming').includes('good.lock'),
      () => kit.names('incoming').join(),
    );
    assert.deepEqual(
      places.map((place, n) => contentOf(kit.path(place, `newer-${n}`))),
      before,
    );
    assert.equal(site.json('completed/succeeded/good/job.json')['schema-version'], '1.0.0');
  },
);
