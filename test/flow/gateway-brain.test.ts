/** A brain and a real gateway in a process of its own: seats that are occupied, tokens, and preempted work. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { Orchestrator } from '../../src/runtime/orchestrator.ts';
import type { TagProvider } from '../fakes/tag-provider.ts';
import { LASTING, onStores, start } from './flow-kit.ts';
import { sourceOf } from './gateway-kit.ts';
import { GatewayProcess, seatOf, tagProvider } from './gateway-process.ts';

/** A refused caller is told to come back after half of it, which no test waits for. */
const RESERVATION_MS = 3_600_000;

interface Site {
  readonly provider: TagProvider;
  readonly gateway: GatewayProcess;
  readonly brain: () => Promise<Orchestrator>;
}

/** The brain is started when the test wants it. */
async function site(t: TestContext, data: string, seat: { preempt?: boolean } = {}): Promise<Site> {
  const provider = await tagProvider(t);
  const gateway = await GatewayProcess.start(t);
  await gateway.follow([seatOf(provider, seat)], RESERVATION_MS);
  const brain = async (): Promise<Orchestrator> => {
    const { source } = sourceOf(t, { config: { pool: { url: gateway.url } } });
    const orchestrator = await start(t, { data, backends: [], sources: [source] });
    await source.firstReports();
    return orchestrator;
  };
  return { provider, gateway, brain };
}

const promptsOf = ({ bills }: TagProvider): string[] => bills.map(({ prompt }) => prompt);

const enqueue = (gateway: GatewayProcess, id: string): Promise<{ status: number }> =>
  gateway.line.ask('POST', '/job/submit', { backend: 's', payload: id, job_id: id });

onStores(
  '[FANO-6] a job that waits for an occupied seat starts when the gateway says that it is free, and no try is used',
  LASTING,
  async (t, data) => {
    const { provider, gateway, brain: begin } = await site(t, data);
    const other = gateway.line.as({ owner: 'other' });
    assert.equal((await gateway.submit('theirs:1', {}, other)).status, 200);
    await enqueue(gateway, 'night');
    const brain = await begin();
    await brain.submit({ job_id: 'mine', type: 'inference', model: 'm', payload: 'mine' });
    await gateway.untilSeats(({ seats }) => seats[0].high_priority_pending);
    const late = gateway.line.as({ owner: 'late' });
    const { error } = (await gateway.submit('late:1', {}, late)).body;
    assert.deepEqual([error.reason, error.retry_after_ms], ['occupied', RESERVATION_MS / 2]);

    provider.release('theirs:1');
    await provider.billed(2);
    assert.deepEqual(promptsOf(provider), ['theirs:1', 'mine'], 'before later callers and before the queue');
    assert.equal((await gateway.submit('late:1', {}, late)).status, 503);
    provider.release('mine');
    const job = await brain.wait('mine');
    assert.deepEqual([job.state, job.tries], ['succeeded', 0]);
    assert.equal(provider.peak, 1);
    assert.deepEqual(promptsOf(provider), ['theirs:1', 'mine'], 'the seat is kept for the late caller');
  },
);

onStores(
  '[FANO-4] a redriven job has another token, and every token is billed once',
  LASTING,
  async (t, data) => {
    const { provider, brain: begin } = await site(t, data);
    const brain = await begin();
    provider.answersAtOnce = true;
    provider.failing.add('mine');
    await brain.submit({ job_id: 'mine', type: 'inference', model: 'm', payload: 'mine', max_tries: 1 });
    assert.equal((await brain.wait('mine')).state, 'dead');
    await brain.redrive('mine');
    await provider.billed(2);
    assert.equal((await brain.wait('mine')).state, 'dead');
    provider.failing.clear();
    await brain.redrive('mine');
    await provider.billed(3);
    const job = await brain.wait('mine');
    assert.deepEqual([job.state, job.attempts.map(({ attempt }) => attempt)], ['succeeded', [1, 2, 3]]);
    assert.equal(new Set(provider.bills.map(({ tag }) => tag)).size, 3);
  },
);

test('[FANO-4] the same token again is the same request and one bill, at once, later, and after a restart of the gateway', async (t) => {
  const { provider, gateway } = await site(t, '');
  const twenty = await Promise.all(Array.from({ length: 20 }, () => gateway.submit('a:1')));
  assert.deepEqual(
    new Set(twenty.map(({ body }) => body.request_id)),
    new Set(['a:1']),
    'all of them have the first request',
  );
  await provider.billed(1);
  await gateway.kill();
  const second = await GatewayProcess.start(t, { folder: gateway.folder });
  assert.deepEqual((await second.submit('a:1')).body, { request_id: 'a:1', state: 'running' });
  await second.follow([seatOf(provider)]);
  provider.release('a:1');
  assert.equal((await second.ended('a:1')).data.result.text, 'answer to a:1');
  assert.deepEqual((await second.submit('a:1')).body, { request_id: 'a:1', state: 'ended' });
  assert.deepEqual(promptsOf(provider), ['a:1']);
});

test('[FANO-5] of many callers at once one begins, and the others are refused while it runs', async (t) => {
  const { provider, gateway } = await site(t, '');
  const callers = Array.from({ length: 20 }, (_, i) =>
    gateway.submit(`${i}:1`, {}, gateway.line.as({ owner: `caller-${i}` })),
  );
  // The provider answers nothing yet: a caller that waited for the seat would wait for ever.
  const statuses = (await Promise.all(callers)).map(({ status }) => status);
  assert.deepEqual(statuses.toSorted(), [200, ...Array.from({ length: 19 }, () => 503)]);
  await provider.billed(1);
  assert.equal(provider.bills.length, 1);
});

test('[FANO-6] a seat with preempt: a job of the brain ends what the queue runs, which runs again afterwards', async (t) => {
  const { provider, gateway, brain: begin } = await site(t, 'memory', { preempt: true });
  await enqueue(gateway, 'night');
  await provider.billed(1);
  const brain = await begin();
  await brain.submit({ job_id: 'mine', type: 'inference', model: 'm', payload: 'mine' });
  await provider.billed(2);
  provider.release('mine');
  const job = await brain.wait('mine');
  assert.deepEqual([job.state, job.tries], ['succeeded', 0]);
  await provider.billed(3);
  provider.release('night');
  await gateway.untilSeats(({ running }) => running === 0);
  const { body } = await gateway.line.ask('GET', '/job/night');
  assert.deepEqual([body.state, body.attempts], ['ended', 2]);
  assert.deepEqual(promptsOf(provider), ['night', 'mine', 'night']);
});
