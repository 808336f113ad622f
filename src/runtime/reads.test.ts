import assert from 'node:assert/strict';
import { test } from 'node:test';
import { memoryBrain } from '../../test/fakes/memory-brain.ts';
import { DEFAULT_TENANT, type ModelRegistration } from '../model/records.ts';
import { Medium } from '../stores/memory/memory.ts';
import type { Reads } from './reads.ts';

const MODEL: ModelRegistration = {
  id: 'm',
  name: 'm',
  ref: 'file:/m.gguf',
  aliases: [],
  sizeBytes: 1,
  vramBytes: 1,
  vramGuessed: undefined,
  contextLength: 1,
  slots: undefined,
  sha256: undefined,
  signature: undefined,
  publicKey: undefined,
};

/** All reads that wait until the state they have seen is durable. */
const WAITING: Readonly<Record<string, (reads: Reads) => Promise<unknown>>> = {
  job: (reads) => reads.job('j'),
  jobState: (reads) => reads.jobState('j'),
  jobWithValue: (reads) => reads.jobWithValue('j'),
  recordedJob: (reads) => reads.recordedJob('j', DEFAULT_TENANT),
  jobWithResult: (reads) => reads.jobWithResult('j'),
  jobWithBodies: (reads) => reads.jobWithBodies('j', 'default', undefined),
  jobs: (reads) => reads.jobs(),
  find: (reads) => reads.find({ tenant: 'default', limit: 10 }),
  model: (reads) => reads.model('m'),
  modelRecord: (reads) => reads.modelRecord('m'),
  models: (reads) => reads.models(),
  modelNames: (reads) => reads.modelNames(),
  routes: (reads) => reads.routes(),
  route: (reads) => reads.route('r'),
  pools: (reads) => reads.pools(),
  limits: (reads) => reads.limits(),
  keyLimits: (reads) => reads.keyLimits(),
  prices: (reads) => reads.prices(),
  leases: (reads) => reads.leases('default'),
};

const turns = async (): Promise<void> => {
  for (let turn = 0; turn < 10; turn++) await new Promise((resolve) => setImmediate(resolve));
};

/** Those of sessions, which are a part of their own. */
const OF_SESSIONS: typeof WAITING = {
  get: (reads) => reads.sessions.get('default', 's'),
  messages: (reads) => reads.sessions.messages('default', 's'),
  list: (reads) => reads.sessions.list({ tenant: 'default' }),
};

const OF_SCHEDULES: typeof WAITING = {
  'schedules.get': (reads) => reads.schedules.get('s'),
  'schedules.list': (reads) => reads.schedules.list(),
  'schedules.record': (reads) => reads.schedules.record(`${DEFAULT_TENANT}~s`),
  'schedules.records': (reads) => reads.schedules.records(),
};

for (const [name, read] of Object.entries({ ...WAITING, ...OF_SESSIONS, ...OF_SCHEDULES })) {
  test(`${name}: resolves once the state it has seen is durable, and not before`, async (t) => {
    const { orchestrator, hold } = await memoryBrain(t, {});
    const release = hold();
    const ordered = Promise.all([
      orchestrator.submit({ job_id: 'j', type: 'nobody', session_id: 's' }),
      orchestrator.catalog.register(MODEL),
      orchestrator.limits.set([{ scope: 'global', concurrency: 5 }], 'test'),
      orchestrator.catalog.setRoute('r', [{ model: 'm', on: [] }], 'test'),
      orchestrator.prices.set([{ model: 'm', input: 1 }], 'test'),
      orchestrator.schedules.set(
        's',
        { every_sec: 60, job: { type: 'nobody' } },
        { tenant: DEFAULT_TENANT, by: 'test', source: 'api' },
      ),
    ]);
    await turns();
    let resolved = false;
    const answer = read(orchestrator.reads).then((value) => {
      resolved = true;
      return value;
    });
    await turns();
    assert.equal(resolved, false);
    release();
    await ordered;
    assert.notEqual(await answer, undefined);
  });
}

test('every read of a record waits, or is listed as synchronous', async (t) => {
  const { orchestrator } = await memoryBrain(t, {});
  const atOnce = [
    'spec',
    'admission',
    'queuePosition',
    'isWaiting',
    'isPoolUp',
    'backends',
    'isDiverged',
    'figures',
    'full',
    'paused',
    'epoch',
    'status',
    'scaling',
    'leftWork',
    'now',
  ];
  /** `pool` needs a brain with pool managers; `pools` waits in the same way. The others are no reads of callers. */
  const others = ['constructor', 'entryNow', 'entryWithResult', 'entryWithValue', 'bodiesOf', 'pool'];
  const all = Object.getOwnPropertyNames(Object.getPrototypeOf(orchestrator.reads));
  assert.deepEqual(all.sort(), [...Object.keys(WAITING), ...atOnce, ...others].sort());
});

test('a synchronous read returns nothing of a job that is not durable', async (t) => {
  const { orchestrator, hold } = await memoryBrain(t, {});
  const { reads } = orchestrator;
  const release = hold();
  const submitted = orchestrator.submit({ job_id: 'j', type: 'nobody' });
  await turns();
  assert.deepEqual(
    [reads.spec('j'), reads.queuePosition('j'), reads.isWaiting('j')],
    [undefined, undefined, false],
  );
  release();
  await submitted;
  assert.equal(reads.spec('j')?.type, 'nobody');
  assert.equal(reads.queuePosition('j')?.position, 0);
});

test('waiting times are in brain time, which is ahead of a wall clock that was set back', async (t) => {
  const medium = new Medium();
  const HOUR_MS = 3_600_000;
  medium.lastAt = Date.now() + HOUR_MS;
  const { orchestrator } = await memoryBrain(t, {}, medium);
  await orchestrator.submit({ job_id: 'j', type: 'nobody', not_before: medium.lastAt + 60_000 });
  const wait = orchestrator.reads.queuePosition('j')?.predictedStartMs ?? 0;
  assert.ok(wait > 0 && wait <= 60_000, String(wait));
});
