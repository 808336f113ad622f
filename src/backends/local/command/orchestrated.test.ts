import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { type TestContext, test } from 'node:test';
import { CommandKit, kill, sh, until } from '../../../../test/fakes/command-kit.ts';
import { createOrchestrator } from '../../../app/library.ts';
import type { JobView } from '../../../model/http/jobs.ts';
import type { JobEvent } from '../../../runtime/job-events.ts';
import type { OwnerRecord } from './layout.ts';

type Library = Awaited<ReturnType<typeof createOrchestrator>>;

const OTHER_BRAIN = join(import.meta.dirname, '../../../../test/fakes/command-orchestrator.ts');

test('a job whose brain is killed in the middle of the output runs once and gets its whole result', async (t) => {
  const kit = new CommandKit(t);
  const go = join(kit.root, 'go');
  const data = join(kit.root, 'data');
  const work = sh(
    `echo ran >> ${kit.ledger}; echo a; echo b; until [ -e ${go} ]; do sleep 0.02; done; echo c`,
  );
  const options = JSON.stringify({ name: 'local', folder: kit.folder, types: { work } });
  const brain = spawn(process.execPath, [OTHER_BRAIN, data, options, 'job'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.after(() => brain.kill('SIGKILL'));
  const lines: string[] = [];
  createInterface({ input: brain.stdout }).on('line', (line) => lines.push(line));
  await until(() => lines.includes('event 1.3'));
  brain.kill('SIGKILL');
  await until(() => brain.signalCode);

  const orchestrator = await createOrchestrator({ data, backends: [kit.backend(work)] });
  t.after(() => orchestrator.stop());
  fs.writeFileSync(go, '');
  const job = await orchestrator.wait('job');
  assert.equal(job.state, 'succeeded');
  assert.deepEqual(job.result, { text: 'a\nb\nc\n', exit_code: 0 });
  assert.equal(job.attempts.length, 1);
  assert.deepEqual(kit.runs(), ['ran']);

  // A client that resumes gets the rest, and a new one gets all events.
  const tokens = async (after?: string): Promise<unknown[]> => {
    const received: JobEvent[] = [];
    for await (const event of orchestrator.events('job', after === undefined ? {} : { after }))
      received.push(event);
    return received.filter(({ type }) => type === 'token').map(({ data: text }) => text);
  };
  const whole = await tokens();
  assert.equal(whole.length, 3);
  assert.deepEqual(await tokens('1.2'), whole.slice(1));
  assert.deepEqual(await tokens('1.3'), whole.slice(2));
});

test('a cancel and a timeout stop the command', async (t) => {
  const kit = new CommandKit(t);
  const backend = kit.backend(sh('echo here; exec sleep 600'));
  const orchestrator = await createOrchestrator({ data: join(kit.root, 'data'), backends: [backend] });
  t.after(() => orchestrator.stop());
  await orchestrator.submit({ job_id: 'one', type: 'work', payload: {} });
  await orchestrator.submit({ job_id: 'two', type: 'work', payload: {}, timeout_ms: 300, max_tries: 1 });
  await until(() => kit.commands().length >= 1);
  await orchestrator.cancel('one');
  assert.equal((await orchestrator.wait('one')).state, 'cancelled');
  const two = await orchestrator.wait('two');
  assert.equal(two.state, 'dead');
  assert.equal(two.error?.code, 'WORKER_TIMEOUT');
  await until(() => kit.commands().length === 0);
});

/** How an execution is lost: its wrapper dies without a word, or somebody tells its keeper to stop. */
const LOSSES = ['SIGKILL', 'SIGTERM'] as const;
const VICTIM = { SIGKILL: 'wrapper', SIGTERM: 'keeper' } as const;

for (const signal of LOSSES) {
  test(`a paid job whose ${VICTIM[signal]} gets ${signal} is held, and not run again`, async (t) => {
    const kit = new CommandKit(t);
    const { orchestrator } = await lostExecution(t, kit, signal, { paid: true });
    const { state, attempts } = await until(() => stateAfterLoss(orchestrator));
    assert.deepEqual([state, attempts.length], ['stale', 1]);
    await orchestrator.resolve('job', { as: 'succeeded', result: { text: 'as the ledger says' } });
    assert.equal((await orchestrator.wait('job')).state, 'succeeded');
    assert.deepEqual(kit.runs(), ['ran']);
  });

  test(`a job whose ${VICTIM[signal]} gets ${signal} does what its on_unknown says`, async (t) => {
    const kit = new CommandKit(t);
    const { orchestrator } = await lostExecution(t, kit, signal, { paid: true, on_unknown: 'fail' });
    const failed = await orchestrator.wait('job');
    assert.deepEqual([failed.state, failed.error?.code], ['dead', 'UNKNOWN_OUTCOME']);
    assert.deepEqual(kit.runs(), ['ran']);
    // Who follows it afterwards reads what it said, and its end.
    const types: string[] = [];
    for await (const { type } of orchestrator.events('job')) types.push(type);
    assert.deepEqual([types[0], types.at(-1)], ['started', 'error']);
  });

  test(`a free job whose ${VICTIM[signal]} gets ${signal} is run again`, async (t) => {
    const kit = new CommandKit(t);
    const { orchestrator, go } = await lostExecution(t, kit, signal, { paid: false });
    await until(() => kit.runs().length === 2);
    go();
    assert.equal((await orchestrator.wait('job')).state, 'succeeded');
    assert.deepEqual(kit.runs(), ['ran', 'ran']);
  });
}

/** Runs a job, and signals its wrapper or its keeper once the command has written to its ledger. */
async function lostExecution(
  t: TestContext,
  kit: CommandKit,
  signal: (typeof LOSSES)[number],
  { paid, on_unknown }: { readonly paid: boolean; readonly on_unknown?: 'fail' },
): Promise<{ orchestrator: Library; go: () => void }> {
  const file = join(kit.root, 'go');
  const work = sh(`echo ran >> ${kit.ledger}; until [ -e ${file} ]; do sleep 0.02; done`);
  const backend = kit.backend(work, { paid, slots: 1 });
  const orchestrator = await createOrchestrator({ data: join(kit.root, 'data'), backends: [backend] });
  t.after(() => orchestrator.stop());
  await orchestrator.submit({
    job_id: 'job',
    type: 'work',
    payload: {},
    ...(on_unknown && { on_unknown }),
  });
  await until(() => kit.runs().length === 1);
  const keeper = kit.record<OwnerRecord>(kit.paths('job:1').owner);
  const victim = VICTIM[signal] === 'keeper' ? keeper : kit.wrapper('job:1');
  kill(victim?.pid as number, signal);
  return { orchestrator, go: () => fs.writeFileSync(file, '') };
}

/** The job once its loss was noticed. */
async function stateAfterLoss(orchestrator: Library): Promise<JobView | undefined> {
  const job = await orchestrator.get('job');
  return job.state === 'running' || job.state === 'claimed' ? undefined : job;
}
