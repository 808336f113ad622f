/** A dead job that had left memory is redriven: the doctor knows such changes, and still finds wrong ones. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { askOf, change, FolderMaker, JobScript } from '../../../../test/fakes/folder-maker.ts';
import { type AskRecord, type AttemptRecord, type Change, tokenOf } from '../../../model/records.ts';
import { examine } from './doctor.ts';

interface DeadJob {
  readonly maker: FolderMaker;
  readonly script: JobScript;
  readonly ask: AskRecord;
  readonly attempts: readonly AttemptRecord[];
}

/** A job that died after two tries. */
async function deadJob(): Promise<DeadJob> {
  const maker = await FolderMaker.make();
  const script = new JobScript('job');
  const n = maker.next;
  await maker.add(...script.ask(n));
  const attempts: AttemptRecord[] = [];
  for (const then of ['retry', 'die'] as const) {
    await maker.add(...script.claim(), ...script.start());
    await maker.add(...script.fail(then));
    attempts.push(script.attempt as AttemptRecord);
  }
  return { maker, script, ask: askOf('job', n), attempts };
}

const restored = (ask: AskRecord, attempts: readonly AttemptRecord[]): Change[] => [
  change('ask', 'job', ask, 'redrive'),
  ...attempts.map((attempt) => change('attempt', tokenOf('job', attempt.n), attempt, 'redrive')),
];

async function problems({ maker }: DeadJob): Promise<string[]> {
  const { findings } = await examine(maker.disk, maker.paths.folder);
  return findings
    .filter(({ verdict }) => verdict === 'bad')
    .map(({ check, sentence }) => `${check}: ${sentence}`);
}

test('a job that is restored as it was and then redriven is healthy, to its end', async () => {
  const dead = await deadJob();
  const { maker, script, ask, attempts } = dead;
  await maker.add(...restored(ask, attempts), ...script.redrive());
  assert.deepEqual(await problems(dead), []);
  await maker.add(...script.claim(), ...script.start(), ...script.succeed());
  assert.deepEqual(await problems(dead), []);
});

test('a restored attempt that differs from what it was is found', async () => {
  const dead = await deadJob();
  const { maker, script, ask, attempts } = dead;
  const last = { ...(attempts[1] as AttemptRecord), backend: 'b9' };
  await maker.add(...restored(ask, [attempts[0] as AttemptRecord, last]), ...script.redrive());
  assert.deepEqual(await problems(dead), ['attempts: job:2 was restored as another attempt than it was']);
});

test('a restored attempt that never began, or is open, is found', async () => {
  const dead = await deadJob();
  const { maker, script, ask, attempts } = dead;
  const open = { ...(attempts[1] as AttemptRecord), n: 3, state: 'accepted' } as AttemptRecord;
  await maker.add(...restored(ask, [...attempts, open]), ...script.redrive());
  const found = await problems(dead);
  assert.ok(found.includes('attempts: job:3 was restored, but never began'), found.join());
  assert.ok(found.includes('moves: job:3 was restored as accepted'), found.join());
});

test('a job that is restored while it is alive, or with another ask, is found', async () => {
  const dead = await deadJob();
  const { maker, script, ask, attempts } = dead;
  await maker.add(...script.redrive());
  await maker.add(...restored({ ...ask, hash: 'another' }, attempts));
  assert.deepEqual(await problems(dead), [
    'moves: "job" was restored for a redrive while it was queued',
    'jobs: "job" was restored for a redrive with another ask than it had',
  ]);
});
