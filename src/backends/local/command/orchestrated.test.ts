import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { CommandKit, sh, until } from '../../../../test/fakes/command-kit.ts';
import { createOrchestrator } from '../../../app/library.ts';
import type { JobEvent } from '../../../runtime/job-events.ts';

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
