/** Commands as handlers of a spool, which outlive the agents that have started them. */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { join, relative } from 'node:path';
import { test } from 'node:test';
import { CommandRuns } from '../../src/daemons/spool/command-runs.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { freshLifecycle } from '../../src/spool/envelope.ts';
import { SpoolSite } from './spool-site.ts';

const resultOf = (site: SpoolSite, job: string): unknown =>
  JSON.parse(fs.readFileSync(site.kit.path('completed/succeeded', job, 'result.json'), 'utf8'));

test('a command goes on when its agent is killed, and its output is the result', {
  timeout: 120_000,
}, async (t) => {
  const site = await SpoolSite.make(t);
  const gate = join(site.kit.folder, '..', 'gate');
  const agent = await site.daemon(['agent', ...site.script(`while [ ! -e ${gate} ]; do sleep 0.05; done`)]);
  await site.submit('job');
  await site.until('the job is begun', () => site.noted('begin', 'job') === 1);
  agent.child.kill('SIGKILL');
  await agent.ended;
  await site.daemon(['watchdog', '--interval', '100ms']);
  await site.daemon(['manager', '--interval', '100ms', '--retry-delay', '1ms']);
  await site.daemon(['agent', ...site.script('true')]);
  await site.submit('other');
  await site.has('completed/succeeded', 'other');
  assert.equal(site.kit.names('jobs/stale').length, 0, 'the job is not taken while its command runs');
  fs.writeFileSync(gate, '');
  await site.has('completed/succeeded', 'job', 'other');
  assert.equal(site.noted('begin', 'job'), 1);
  assert.deepEqual(resultOf(site, 'job'), { text: '"done"\n', exit_code: 0 });
});

test('a command with a path is meant from where the agent was started', { timeout: 120_000 }, async (t) => {
  const site = await SpoolSite.make(t);
  const program = join(site.kit.folder, '..', 'run-job');
  fs.writeFileSync(program, '#!/bin/sh\ncat\n', { mode: 0o755 });
  await site.daemon(['agent', '--', `./${relative('.', program)}`]);
  await site.submit('job');
  await site.has('completed/succeeded', 'job');
  assert.deepEqual(resultOf(site, 'job'), { text: '{"name":"job"}\n', json: { name: 'job' }, exit_code: 0 });
});

test('a prompt.json that became a link after the claim is not followed', async (t) => {
  const { kit } = await SpoolSite.make(t);
  const folder = kit.path('in-progress/agent/job');
  fs.mkdirSync(folder, { recursive: true });
  fs.symlinkSync('/etc/hostname', join(folder, 'prompt.json'));
  const env = realEnv();
  const handler = new CommandRuns({ env, spool: kit.spool, spoolId: 'id' }).handler({ argv: ['cat'] });
  const { signal } = new AbortController();
  const events = join(folder, 'events.jsonl');
  const lifecycle = freshLifecycle(0);
  const job = { name: 'job', prompt: {}, folder, events, attempt: 1, lifecycle, signal, leave: signal };
  assert.deepEqual(await handler(job), { ok: false, reason: 'prompt.json is a link' });
});

const EXITED = { why: 'exit', code: 0, signal: null, stderr_tail: '', ended_at: 1 };

/** What a person or a command may have left in the place of `run-1`, in a folder of a dead agent. */
const FORGED_RUNS: Readonly<Record<string, (run: string, outside: string) => void>> = {
  'a link': (run, outside) => {
    fs.writeFileSync(join(outside, 'exit.json'), JSON.stringify(EXITED));
    fs.symlinkSync(outside, run);
  },
  'a folder with a link as the output': (run, outside) => {
    fs.mkdirSync(run);
    fs.writeFileSync(join(run, 'exit.json'), JSON.stringify(EXITED));
    fs.symlinkSync(join(outside, 'stdout'), join(run, 'stdout'));
  },
  'a folder without an output': (run) => {
    fs.mkdirSync(run);
    fs.writeFileSync(join(run, 'exit.json'), JSON.stringify(EXITED));
  },
  'a folder with an output that is not the JSON which it was': (run) => {
    fs.mkdirSync(run);
    fs.writeFileSync(join(run, 'exit.json'), JSON.stringify({ ...EXITED, is_json: true }));
    fs.writeFileSync(join(run, 'stdout'), '{"half":');
  },
};

for (const [what, forge] of Object.entries(FORGED_RUNS))
  test(`${what} in the place of a run is not taken for the end of a job`, { timeout: 20_000 }, async (t) => {
    const { kit } = await SpoolSite.make(t);
    const [folder, outside] = [kit.path('in-progress/agent/job'), kit.path('../outside')];
    for (const path of [folder, outside]) fs.mkdirSync(path, { recursive: true });
    fs.writeFileSync(join(outside, 'stdout'), 'a secret');
    forge(join(folder, 'run-1'), outside);
    const runs = new CommandRuns({ env: realEnv(), spool: kit.spool, spoolId: 'id' });
    assert.match((await runs.look('watchdog', folder, 1)).is, /^(none|lost)$/);
  });

test('a command that fails after its agent was killed is a failed try', { timeout: 120_000 }, async (t) => {
  const site = await SpoolSite.make(t);
  const gate = join(site.kit.folder, '..', 'gate');
  const agent = await site.daemon([
    'agent',
    ...site.script(`while [ ! -e ${gate} ]; do sleep 0.05; done; exit 3`),
  ]);
  await site.submit('job');
  await site.until('the job is begun', () => site.noted('begin', 'job') === 1);
  agent.child.kill('SIGKILL');
  await agent.ended;
  await site.daemon(['watchdog', '--interval', '100ms']);
  fs.writeFileSync(gate, '');
  await site.has('completed/failed', 'job');
  const { reason } = JSON.parse(fs.readFileSync(site.kit.path('completed/failed/job/job.json'), 'utf8'));
  assert.equal(reason, 'exit code 3');
});

test('a kill reaches a command whose agent is gone', { timeout: 120_000 }, async (t) => {
  const site = await SpoolSite.make(t);
  const agent = await site.daemon(['agent', ...site.script('sleep 1000')]);
  await site.submit('job');
  await site.until('the job is begun', () => site.noted('begin', 'job') === 1);
  agent.child.kill('SIGKILL');
  await agent.ended;
  fs.writeFileSync(site.kit.path('in-progress', site.kit.names('in-progress')[0] as string, 'job/kill'), '');
  await site.daemon(['watchdog', '--interval', '100ms']);
  await site.daemon(['manager', '--interval', '100ms', '--retry-delay', '1ms']);
  await site.has('completed/killed', 'job');
  assert.equal(site.noted('end', 'job'), 0);
});

test('an agent that is stopped brings back what does not end in time, with its command ended', {
  timeout: 120_000,
}, async (t) => {
  const site = await SpoolSite.make(t);
  const agent = await site.daemon(['agent', '--grace', '100ms', ...site.script('sleep 1000')]);
  await site.submit('job');
  await site.until('the job is begun', () => site.noted('begin', 'job') === 1);
  agent.child.kill('SIGTERM');
  assert.equal((await agent.ended).code, 0);
  assert.deepEqual(site.kit.names('incoming'), ['job']);
  for (const folder of ['tmp', 'in-progress']) assert.deepEqual(site.kit.names(folder), []);
});

test('a command that runs too long is a failed try, and all of its processes are ended', {
  timeout: 120_000,
}, async (t) => {
  const site = await SpoolSite.make(t);
  await site.daemon(['agent', '--timeout', '300ms', ...site.script('sleep 1000 & sleep 1000')]);
  await site.submit('job');
  await site.has('completed/failed', 'job');
  const { reason } = JSON.parse(fs.readFileSync(site.kit.path('completed/failed/job/job.json'), 'utf8'));
  assert.equal(reason, 'it ran longer than 300 ms');
});
