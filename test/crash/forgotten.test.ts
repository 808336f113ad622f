/** An executor that has forgotten what it had accepted, although its memory says that it reaches back far enough. */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { after, test } from 'node:test';
import { armCrashpoints } from '../../src/kit/crashpoint.ts';
import { buildBrain } from './brain.ts';
import { type Folders, foldersOf, makeFolders, scratchFolder } from './folders.ts';
import { ledgerPath, readLedger } from './ledger.ts';
import { FIRST_INSTANT, SteadyEnv } from './steady-env.ts';

const scratch = scratchFolder('orchd-forgotten-');
after(() => fs.rmSync(scratch, { recursive: true, force: true }));

async function withBrain(
  folders: Folders,
  startAt: number,
  run: (brain: ReturnType<typeof buildBrain>, env: SteadyEnv) => Promise<void>,
): Promise<void> {
  const env = new SteadyEnv({ folder: folders.data, startAt, seed: 1 });
  const brain = buildBrain(env, folders, { pace: 'steady', background: 'inline' });
  try {
    await env.run(async () => {
      await brain.orchestrator.start();
      await run(brain, env);
      await brain.orchestrator.stop();
    }, 1_000_000);
  } finally {
    env.halt();
  }
}

function forgetStarts(folders: Folders): void {
  const kept = readLedger(folders.ledger).filter(({ is }) => is !== 'start');
  fs.writeFileSync(ledgerPath(folders.ledger), `${kept.map((line) => JSON.stringify(line)).join('\n')}\n`);
}

test('is asked again at an easy pace while the job is held', async () => {
  const folders = makeFolders(foldersOf(scratch));
  await withBrain(folders, FIRST_INSTANT, async ({ orchestrator }, env) => {
    await orchestrator.submit({ job_id: 'held', type: 'work', payload: { hold: true } });
    await env.sleep(20);
  });
  forgetStarts(folders);
  let kills = 0;
  armCrashpoints((name) => {
    if (name === 'effect:before-kill') kills++;
  });
  after(() => armCrashpoints(undefined));
  await withBrain(folders, FIRST_INSTANT + 60_000, async ({ orchestrator }, env) => {
    await env.sleep(10_000);
    assert.equal((await orchestrator.get('held')).state, 'stale');
  });
  assert.ok(kills < 100, `killed ${kills} times in ten seconds`);
});
