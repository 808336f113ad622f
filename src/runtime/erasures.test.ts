/** The keys of deleted sessions: dropped after the deletion is durable, and surely. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { memoryBrain } from '../../test/fakes/memory-brain.ts';
import { Stage } from '../../test/flow/stage.ts';
import { runtimeSettings } from '../app/settings.ts';
import { FunctionBackend } from '../backends/local/functions.ts';
import { loadConfig } from '../config/load.ts';
import { realEnv } from '../kit/env/real.ts';
import { isSealed } from '../kit/seal.ts';
import { errorInfo } from '../model/errors.ts';
import { Medium, MemoryStore } from '../stores/memory/memory.ts';
import { Orchestrator } from './orchestrator.ts';

const TENANT = 'default';

const turns = async (count = 20): Promise<void> => {
  for (let turn = 0; turn < count; turn++) await new Promise((resolve) => setImmediate(resolve));
};

/** `gate` holds back every job until it is opened. */
async function begin(t: TestContext, medium = new Medium(), gate: Promise<unknown> = Promise.resolve()) {
  const heard: unknown[] = [];
  const backend = new FunctionBackend(realEnv(), {
    name: 'f',
    slots: 1,
    types: {
      echo: async (payload) => {
        heard.push(payload);
        await gate;
        return payload;
      },
    },
  });
  return { ...(await memoryBrain(t, { backends: [backend] }, medium)), heard };
}

const payloads = ({ changes }: Medium): unknown[] =>
  changes.flatMap((change) => (change.kind === 'ask' && change.after ? [change.after.payload] : []));

test('a body of a session is sealed in its record, and one of another job is not', async (t) => {
  const { orchestrator, medium, heard } = await begin(t);
  await orchestrator.submit({ job_id: 'a', type: 'echo', payload: 'one', session_id: 's' });
  await orchestrator.submit({ job_id: 'b', type: 'echo', payload: 'two' });
  assert.equal((await orchestrator.wait('a')).result, 'one');
  assert.equal((await orchestrator.wait('b')).result, 'two');
  assert.deepEqual(heard, ['one', 'two']);
  assert.deepEqual(
    payloads(medium).map((each) => isSealed(String(each))),
    [true, false],
  );
});

test('the key is dropped once the deletion is durable, and not before', async (t) => {
  const { orchestrator, medium, hold } = await begin(t);
  await orchestrator.submit({ job_id: 'a', type: 'echo', payload: 'one', session_id: 's' });
  await orchestrator.wait('a');
  const release = hold();
  let isDeleted = false;
  const deleting = orchestrator.sessions.remove(TENANT, 's', 'me').then(() => {
    isDeleted = true;
  });
  await turns();
  assert.deepEqual([medium.keys.keys.size, isDeleted], [1, false]);
  release();
  await deleting;
  assert.equal(medium.keys.keys.size, 0);
  const { state, result, payload } = await orchestrator.get('a');
  assert.deepEqual([state, result, payload], ['succeeded', undefined, undefined]);
});

test('a brain that dies between the deletion and the drop leaves it to the next one', async (t) => {
  const medium = new Medium();
  const first = await begin(t, medium);
  await first.orchestrator.submit({ job_id: 'a', type: 'echo', payload: 'one', session_id: 's' });
  await first.orchestrator.wait('a');
  const dropped = Promise.withResolvers<void>();
  const { keys } = medium.keys;
  const drop = keys.delete.bind(keys);
  keys.delete = () => {
    dropped.resolve();
    throw new Error('the process has died here');
  };
  void first.orchestrator.sessions.remove(TENANT, 's', 'me').catch(() => undefined);
  await dropped.promise;
  await first.orchestrator.stop();
  keys.delete = drop;
  assert.equal(keys.size, 1);
  const next = await begin(t, medium);
  while (keys.size > 0) await turns(1);
  await turns();
  // Whoever comes later finds nothing left to do.
  assert.equal(medium.changes.filter(({ kind }) => kind === 'erasure').at(-1)?.after, null);
  await next.orchestrator.stop();
});

test('a brain that dies between a deletion and that of a session begun below it leaves both to the next one', async (t) => {
  const medium = new Medium();
  const gate = Promise.withResolvers<void>();
  const first = await begin(t, medium, gate.promise);
  await first.orchestrator.submit({ job_id: 'a', type: 'echo', payload: 'one', session_id: 's' });
  const below = { job_id: 'b', type: 'echo', payload: 'two', parent_id: 'a', session_id: 'b' };
  await first.orchestrator.submit(below);
  await first.orchestrator.submit({ ...below, job_id: 'c', session_id: 'other' });
  gate.resolve();
  for (const id of ['a', 'b', 'c']) await first.orchestrator.wait(id);
  const dropped = Promise.withResolvers<void>();
  const { keys } = medium.keys;
  const drop = keys.delete.bind(keys);
  keys.delete = () => {
    dropped.resolve();
    throw new Error('the process has died here');
  };
  void first.orchestrator.sessions.remove(TENANT, 's', 'me').catch(() => undefined);
  await dropped.promise;
  await first.orchestrator.stop();
  keys.delete = drop;
  const { orchestrator } = await begin(t, medium);
  while (keys.size > 1) await turns(1);
  await turns();
  const payloadOf = async (id: string): Promise<unknown> => (await orchestrator.get(id)).payload;
  assert.deepEqual([await payloadOf('a'), await payloadOf('b')], [undefined, undefined]);
  assert.equal(await payloadOf('c'), 'two', 'a session that a caller has named is none of the begun ones');
});

test('a job that is submitted while its session is being deleted gets a key that stays', async (t) => {
  const { orchestrator, hold } = await begin(t);
  await orchestrator.submit({ job_id: 'a', type: 'echo', payload: 'one', session_id: 's' });
  await orchestrator.wait('a');
  const release = hold();
  const deleting = orchestrator.sessions.remove(TENANT, 's', 'me');
  await turns();
  const submitting = orchestrator.submit({ job_id: 'b', type: 'echo', payload: 'two', session_id: 's' });
  await turns();
  release();
  await Promise.all([deleting, submitting]);
  assert.equal((await orchestrator.wait('b')).result, 'two');
  assert.equal((await orchestrator.get('b')).payload, 'two');
});

test('a job whose text is gone fails for good, and is not tried again', async (t) => {
  const gate = Promise.withResolvers<void>();
  const { orchestrator, medium, heard } = await begin(t, new Medium(), gate.promise);
  // The only slot is taken, so that the second job waits with its payload in its record.
  await orchestrator.submit({ job_id: 'first', type: 'echo', payload: 0 });
  await orchestrator.submit({ job_id: 'a', type: 'echo', payload: 'one', session_id: 's', max_tries: 5 });
  await turns();
  medium.keys.keys.clear();
  // What is in memory of the key goes with the next deletion of any session.
  await orchestrator.sessions.create(TENANT, 'other', {});
  await orchestrator.sessions.remove(TENANT, 'other', 'me');
  gate.resolve();
  const { state, error, attempts } = await orchestrator.wait('a');
  assert.deepEqual([state, error?.code, error?.reason], ['dead', 'NOT_FOUND', 'session_deleted']);
  assert.deepEqual([attempts.length, heard.length], [1, 1]);
});

test('what an executor says about a failure is readable for its owner, and sealed in the records', async (t) => {
  const medium = new Medium();
  const backend = new FunctionBackend(realEnv(), {
    name: 'f',
    types: {
      fail: () => {
        throw new Error('it quotes a secret');
      },
    },
  });
  const { orchestrator } = await memoryBrain(t, { backends: [backend] }, medium);
  await orchestrator.submit({ job_id: 'a', type: 'fail', session_id: 's', max_tries: 1 });
  const { error, attempts } = await orchestrator.wait('a');
  assert.match(error?.message ?? '', /a secret/);
  assert.match(attempts[0]?.error?.message ?? '', /a secret/);
  assert.match((await orchestrator.get('a')).error?.message ?? '', /a secret/);
  assert.ok(!JSON.stringify(medium.changes).includes('secret'));
  await orchestrator.sessions.remove(TENANT, 's', 'me');
  const after = await orchestrator.get('a');
  assert.equal(after.error?.code, error?.code);
  assert.doesNotMatch(JSON.stringify(after), /secret|sealed/);
});

interface Speaker {
  /** Called before the job is submitted. */
  readonly prepare?: (stage: Stage) => void;
  /** Called when the job has begun. */
  readonly speak?: (stage: Stage, orchestrator: Orchestrator) => Promise<void>;
  readonly policy: 'hold' | 'fail';
  /** Of a job that is being cancelled nothing is kept that was said. */
  readonly isCancelled?: true;
}

/** Ways in which a sentence about a job gets into its records. */
const SPEAKERS: Readonly<Record<string, Speaker>> = {
  'by a provider that turns it away': {
    policy: 'fail',
    speak: async (stage) => {
      const error = errorInfo('RATE_LIMITED', 'it quotes a secret');
      stage.end('a:1', { ok: 'turned_away', why: 'quota', error, retryAfterMs: 3_600_000 });
    },
  },
  'by an executor that has lost its outcome': {
    policy: 'fail',
    prepare: (stage) => {
      stage.follow = async () => ({ is: 'forgotten', why: 'it quotes a secret' });
    },
  },
  'by an executor that is asked about it': {
    policy: 'fail',
    prepare: (stage) => {
      stage.answer = () => Promise.reject(new Error('no answer'));
      const known = new Map([['a:1', { is: 'forgotten', why: 'it quotes a secret' } as const]]);
      stage.inspect = async () => ({ registry: stage.info.registry, rememberedSince: 0, known });
    },
  },
  'by an executor that is told to end it': {
    policy: 'fail',
    isCancelled: true,
    speak: async (stage, orchestrator) => {
      stage.kill = async () => ({ is: 'forgotten', why: 'it quotes a secret' });
      await orchestrator.cancel('a');
    },
  },
  'by somebody who settles it as failed': {
    policy: 'hold',
    prepare: (stage) => {
      stage.answer = () => Promise.reject(new Error('no answer'));
      stage.inspect = async () => ({ registry: 'another', rememberedSince: 0, known: new Map() });
    },
    speak: async (_, orchestrator) => {
      while ((await orchestrator.get('a')).waiting?.code !== 'unknown_outcome') await turns(1);
      await orchestrator.resolve('a', { as: 'failed', message: 'it quotes a secret' });
    },
  },
};

for (const [who, { prepare, speak, policy, isCancelled = false }] of Object.entries(SPEAKERS))
  test(`what is said about a job of a session is sealed in its records: ${who}`, async (t) => {
    const stage = new Stage();
    prepare?.(stage);
    const { orchestrator, medium } = await memoryBrain(t, { backends: [stage] });
    await orchestrator.submit({ job_id: 'a', session_id: 's', max_tries: 1, on_unknown: policy });
    await stage.until(() => stage.offers.length > 0);
    await speak?.(stage, orchestrator);
    const isClosed = async (): Promise<boolean> => {
      const { state = '' } = (await orchestrator.get('a')).attempts[0] ?? {};
      return state === 'ended' || state === 'abandoned';
    };
    while (!(await isClosed())) await turns(1);
    const shown = JSON.stringify(await orchestrator.get('a'));
    assert.equal(shown.includes('secret'), !isCancelled, shown);
    assert.ok(!JSON.stringify(medium.changes).includes('secret'));
    await orchestrator.sessions.remove(TENANT, 's', 'me');
    assert.doesNotMatch(JSON.stringify(await orchestrator.get('a')), /secret|sealed/);
  });

test('metadata that was sealed before a deletion and written after it is gone, and the session can be used', async (t) => {
  const { orchestrator, hold } = await begin(t);
  await orchestrator.sessions.setBudget(TENANT, 's', 1000);
  await orchestrator.sessions.change(TENANT, 's', { mode: 'first' });
  const release = hold();
  const deleting = orchestrator.sessions.remove(TENANT, 's', 'me', true);
  const changing = orchestrator.sessions.change(TENANT, 's', { mode: 'second' });
  await turns();
  release();
  await Promise.all([deleting, changing]);
  const { session_id: id, token_budget: budget } = await orchestrator.reads.sessions.get(TENANT, 's');
  assert.deepEqual([id, budget], ['s', 1000]);
  const changed = await orchestrator.sessions.change(TENANT, 's', { mode: 'third' });
  assert.equal(changed.metadata?.mode, 'third');
});

test('a result that comes too late for a job of a session is stored nowhere', async (t) => {
  const { orchestrator, medium } = await begin(t);
  await orchestrator.submit({ job_id: 'a', type: 'echo', payload: 'one', session_id: 's' });
  await orchestrator.wait('a');
  // It leaves memory.
  await turns(50);
  const result = `a secret ${'x'.repeat(10_000)}`;
  const deciding = orchestrator.orders.resolve('a', { as: 'succeeded', result }, 'me', TENANT);
  await assert.rejects(deciding, { code: 'ILLEGAL_STATE' });
  assert.ok(!medium.blobs.some((blob) => blob.includes('secret')));
});

test('a purge drops the keys of which nothing is left, and no other', async (t) => {
  const medium = new Medium();
  const env = realEnv();
  const settings = { ...runtimeSettings(loadConfig({})), historyMs: 0, purgeIntervalMs: 20 };
  const types = { echo: async (payload: unknown) => payload };
  const backends = [new FunctionBackend(env, { name: 'f', types })];
  const brain = new Orchestrator({ env, store: new MemoryStore(env.timers, medium), backends, settings });
  t.after(() => brain.stop());
  await brain.start();
  await brain.submit({ job_id: 'a', type: 'echo', payload: 'one', session_id: 's' });
  await brain.wait('a');
  const { keys } = medium.keys;
  keys.set('default~gone', { id: 'gone', key: Buffer.alloc(32), tenant: 'default', session: 'gone' });
  while (medium.keys.keys.has('default~gone')) await new Promise((resolve) => setTimeout(resolve, 5));
  assert.ok(keys.has('default~s'), 'a session in memory keeps its key');
});
