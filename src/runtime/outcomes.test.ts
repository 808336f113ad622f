/** Outcomes that cannot be recorded as they are: they end their job, and never the brain. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { memoryBrain } from '../../test/fakes/memory-brain.ts';
import { FunctionBackend, type JobFunction } from '../backends/local/functions.ts';
import { realEnv } from '../kit/env/real.ts';
import type { Orchestrator } from './orchestrator.ts';

const TENANT = 'default';
/** Too long for a record, so that the list is stored as a blob. */
const LONG = 'x'.repeat(10_000);

async function brainWith(t: TestContext, grow: JobFunction): Promise<Orchestrator> {
  const types = { grow, echo: async (payload: unknown) => payload };
  const { orchestrator } = await memoryBrain(t, {
    backends: [new FunctionBackend(realEnv(), { name: 'f', slots: 4, types })],
  });
  return orchestrator;
}

async function assertAlive(orchestrator: Orchestrator): Promise<void> {
  await orchestrator.submit({ job_id: 'other', type: 'echo', payload: 'here' });
  assert.equal((await orchestrator.wait('other')).result, 'here');
}

/** A session with a job whose second attempt goes on, in the way of `goOn`, after the session was deleted. */
async function deletedMeanwhile(t: TestContext, goOn: JobFunction): Promise<Orchestrator> {
  const begun = Promise.withResolvers<void>();
  const gate = Promise.withResolvers<void>();
  const orchestrator = await brainWith(t, async (payload, context) => {
    if (!context.waited) return context.wait({ state: { list: [LONG] }, growing: ['list'], forMs: 0 });
    begun.resolve();
    await gate.promise;
    return goOn(payload, context);
  });
  await orchestrator.submit({ job_id: 'a', type: 'grow', session_id: 's' });
  await begun.promise;
  await orchestrator.sessions.remove(TENANT, 's', 'me');
  gate.resolve();
  return orchestrator;
}

test('a job that wants to wait after its session was deleted ends, and others go on', async (t) => {
  const orchestrator = await deletedMeanwhile(t, (_, context) =>
    context.wait({ state: { list: [LONG, 'more'] }, growing: ['list'], forMs: 0 }),
  );
  assert.equal((await orchestrator.wait('a')).state, 'cancelled');
  await assertAlive(orchestrator);
});

test('a job that answers after its session was deleted ends, and others go on', async (t) => {
  const orchestrator = await deletedMeanwhile(t, (_, context) =>
    context.end('done', { name: 'list', values: [LONG, 'more'], from: 0 }),
  );
  assert.equal((await orchestrator.wait('a')).state, 'cancelled');
  await assertAlive(orchestrator);
});

for (const [what, list] of [
  ['a value that is no JSON', [LONG, 1n]],
  ['no list', LONG],
] as const)
  test(`a wait with ${what} where a list should grow fails its job, and others go on`, async (t) => {
    const orchestrator = await brainWith(t, (_, context) =>
      context.wait({ state: { list }, growing: ['list'], forMs: 0 }),
    );
    await orchestrator.submit({ job_id: 'a', type: 'grow', max_tries: 1 });
    const { state, error } = await orchestrator.wait('a');
    assert.deepEqual([state, error?.code], ['dead', 'INVALID_PARAMS']);
    await assertAlive(orchestrator);
  });

test('a wait for a time that is no number fails its job', async (t) => {
  const orchestrator = await brainWith(t, (forMs: unknown, context) =>
    context.wait({ forMs: Number(forMs) }),
  );
  for (const forMs of ['abc', 'Infinity']) {
    await orchestrator.submit({ job_id: forMs, type: 'grow', payload: forMs, max_tries: 1 });
    const { state, error } = await orchestrator.wait(forMs);
    assert.deepEqual([state, error?.code], ['dead', 'INVALID_PARAMS']);
  }
});

test('a list that was to grow and has become shorter fails its job', async (t) => {
  const orchestrator = await brainWith(t, (_, context) =>
    context.wait({ state: { list: context.waited ? [LONG] : [LONG, 1] }, growing: ['list'], forMs: 0 }),
  );
  await orchestrator.submit({ job_id: 'a', type: 'grow', max_tries: 1 });
  const { state, error } = await orchestrator.wait('a');
  assert.deepEqual([state, error?.code], ['dead', 'INVALID_PARAMS']);
});

test('a job that adds nothing to its conversation leaves it as it was', async (t) => {
  const said = [{ role: 'user', content: LONG }];
  const orchestrator = await brainWith(t, (values: unknown[], context) =>
    context.end('done', { name: 'list', values, from: values.length }),
  );
  await orchestrator.sessions.create(TENANT, 's', { messages: said });
  await orchestrator.submit({ job_id: 'a', type: 'grow', session_id: 's', payload: said });
  assert.equal((await orchestrator.wait('a')).result, 'done');
  assert.deepEqual(await orchestrator.reads.sessions.messages(TENANT, 's'), said);
  await orchestrator.submit({ job_id: 'b', type: 'grow', session_id: 'empty', payload: [] });
  assert.equal((await orchestrator.wait('b')).result, 'done');
  assert.deepEqual(await orchestrator.reads.sessions.messages(TENANT, 'empty'), []);
});

test('a growing list keeps the place of values that JSON does not have', async (t) => {
  const orchestrator = await brainWith(t, (_, context) =>
    context.waited
      ? (context.waited.state as { list: unknown[] }).list.slice(1)
      : context.wait({ state: { list: [LONG, undefined, 2] }, growing: ['list'], forMs: 0 }),
  );
  await orchestrator.submit({ job_id: 'a', type: 'grow', max_tries: 1 });
  assert.deepEqual((await orchestrator.wait('a')).result, [null, 2]);
});

for (const keepsBudget of [true, false])
  test(`a job that ends after its session was deleted says nothing in the next one of that name (${keepsBudget ? 'emptied' : 'begun anew'})`, async (t) => {
    const begun = Promise.withResolvers<void>();
    const gate = Promise.withResolvers<void>();
    const orchestrator = await brainWith(t, async (_, context) => {
      begun.resolve();
      await gate.promise;
      return context.end('done', { name: 'list', values: ['an old secret'], from: 0 });
    });
    await orchestrator.sessions.setBudget(TENANT, 's', 1000);
    await orchestrator.submit({ job_id: 'a', type: 'grow', session_id: 's' });
    await begun.promise;
    await orchestrator.sessions.remove(TENANT, 's', 'me', keepsBudget);
    await orchestrator.submit({ job_id: 'b', type: 'echo', payload: 1, session_id: 's' });
    gate.resolve();
    const { state, result } = await orchestrator.wait('a');
    assert.deepEqual([state, result], ['cancelled', undefined]);
    await orchestrator.wait('b');
    assert.deepEqual(await orchestrator.reads.sessions.messages(TENANT, 's'), []);
  });
