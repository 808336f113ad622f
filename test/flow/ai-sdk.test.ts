/** The agent loop of the package `ai` over the queue: its process and the brain are killed, and no call is bought twice. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ANSWER, Program, stage } from './ai-sdk-kit.ts';
import type { Plan } from './ai-sdk-main.ts';
import { within } from './flow-kit.ts';

const WAYS = ['agent', 'generateText', 'streamText'] as const satisfies readonly Plan['how'][];
const CALLS = 3;
const DONE = { is: 'end', text: ANSWER, steps: CALLS, inputTokens: 10 * CALLS } as const;

for (const how of WAYS) {
  test(`${how} with tools completes a run, and the same run again is answered from the history`, async (t) => {
    const { provider, brain } = await stage(t);
    const plan = { url: brain.url, run: 'foxes', how };
    assert.deepEqual(await new Program(t, plan).finish(), DONE);
    provider.assertPaid(CALLS);
    assert.deepEqual(await new Program(t, plan).finish(), DONE);
    provider.assertPaid(CALLS);
    const { jobs } = await brain.api.get('/v2/tasks?tag=run=foxes');
    assert.equal(jobs.length, CALLS);
    // Another run asks anew.
    assert.deepEqual(await new Program(t, { ...plan, run: 'others' }).finish(), DONE);
    assert.equal(provider.ledger.length, 2 * CALLS);
  });
}

/** Where a program is killed, and what it does again before it asks for the answer that is held. */
const KILLS = [
  { how: 'agent', turn: 0, toolCalls: 0 },
  { how: 'agent', turn: 1, toolCalls: 2 },
  { how: 'agent', turn: 2, toolCalls: 3 },
  { how: 'streamText', turn: 2, toolCalls: 3 },
] as const;

for (const { how, turn, toolCalls } of KILLS) {
  test(`${how}, killed before answer ${turn + 1} is complete, follows that call when it is started again`, async (t) => {
    const { provider, brain } = await stage(t);
    const plan = { url: brain.url, run: 'foxes', how };
    provider.holdsAt = turn;
    const first = new Program(t, plan);
    await within(provider.called(turn + 1));
    if (how === 'streamText') await first.said('text');
    await first.kill();
    const second = new Program(t, plan);
    await second.said('tool', toolCalls);
    provider.release();
    assert.deepEqual(await second.finish(), DONE);
    provider.assertPaid(CALLS);
  });
}

test('agent, killed while nobody else reads: the answer that came meanwhile is collected', async (t) => {
  const { provider, brain } = await stage(t);
  const plan = { url: brain.url, run: 'foxes', how: 'agent' } as const;
  provider.holdsAt = 0;
  const first = new Program(t, plan);
  await within(provider.called(1));
  await first.kill();
  provider.release();
  const { jobs } = await brain.api.get('/v2/tasks?tag=run=foxes');
  assert.equal((await brain.api.ended(jobs[0].job_id)).state, 'succeeded');
  assert.deepEqual(await new Program(t, plan).finish(), DONE);
  provider.assertPaid(CALLS);
});

test('agent, killed during its tools, goes on from the answer that asked for them', async (t) => {
  const { provider, brain } = await stage(t);
  const plan = { url: brain.url, run: 'foxes', how: 'agent' } as const;
  const first = new Program(t, { ...plan, hold: 'tool' });
  await first.said('tool', 2);
  await first.kill();
  provider.assertPaid(1);
  assert.deepEqual(await new Program(t, plan).finish(), DONE);
  provider.assertPaid(CALLS);
});

test('agent, killed with its answer in hand, gives the same answer and buys nothing', async (t) => {
  const { provider, brain } = await stage(t);
  const plan = { url: brain.url, run: 'foxes', how: 'agent' } as const;
  const first = new Program(t, { ...plan, hold: 'end' });
  await first.said('answered');
  await first.kill();
  assert.deepEqual(await new Program(t, plan).finish(), DONE);
  provider.assertPaid(CALLS);
});

for (const how of ['agent', 'streamText'] as const) {
  test(`${how} goes on when the brain is killed in the middle of an answer and started again`, async (t) => {
    const { provider, brain, restart } = await stage(t);
    provider.holdsAt = 2;
    const program = new Program(t, { url: brain.url, run: 'foxes', how });
    await within(provider.called(CALLS));
    if (how === 'streamText') await program.said('text');
    await brain.kill();
    await restart();
    provider.release();
    assert.deepEqual(await program.finish(), DONE);
    const told = program.lines.flatMap((line) => (line.is === 'text' ? [line.text] : []));
    if (how === 'streamText') assert.equal(told.join(''), ANSWER);
    provider.assertPaid(CALLS);
  });
}
