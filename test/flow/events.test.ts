/** The event stream of a job: in order, every event once, and to its end. */

import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import type { JobEvent } from '../../src/index.ts';
import type { Orchestrator } from '../../src/runtime/orchestrator.ts';
import { engineOf } from '../fakes/engine-of.ts';
import { LASTING, onStores, STORES, start, turns, within } from './flow-kit.ts';
import { holdable } from './holding.ts';
import { Stage } from './stage.ts';

async function begin(t: TestContext, data: string): Promise<{ stage: Stage; orchestrator: Orchestrator }> {
  const stage = new Stage({ slots: 10 });
  t.after(() => stage.endAll());
  return { stage, orchestrator: await start(t, { data, backends: [stage] }) };
}

/** Reads to the end. */
async function readAll(events: AsyncIterable<JobEvent>): Promise<JobEvent[]> {
  const all: JobEvent[] = [];
  for await (const event of events) all.push(event);
  return all;
}

const tokensOf = (events: readonly JobEvent[]): unknown[] =>
  events.filter(({ type }) => type === 'token').map(({ data }) => (data as { t: string }).t);

const say = (stage: Stage, token: string, from: number, to: number): void => {
  for (let i = from; i < to; i++) stage.emit(token, 'token', { t: `t${i}`, i });
};

const WORDS = (count: number): string[] => Array.from({ length: count }, (_, i) => `t${i}`);

onStores('tokens come in order, once each, then the end', STORES, async (t, data) => {
  const { stage, orchestrator } = await begin(t, data);
  await orchestrator.submit({ job_id: 'a' });
  const reading = readAll(orchestrator.events('a'));
  await stage.startedCount(1);
  stage.emit('a:1', 'started', {});
  say(stage, 'a:1', 0, 500);
  await turns();
  say(stage, 'a:1', 500, 1000);
  stage.end('a:1', { ok: true, resultText: '"all of it"' });
  const events = await within(reading);
  assert.deepEqual(tokensOf(events), WORDS(1000));
  const last = events.at(-1)!;
  assert.equal(last.type, 'end');
  assert.deepEqual((last.data as { result: unknown }).result, 'all of it');
  assert.equal(events.filter(({ type }) => type === 'end').length, 1);
  const ids = events.filter(({ type }) => type === 'token').map(({ id }) => id);
  assert.equal(new Set(ids).size, 1000, 'every event has its own id');
});

onStores('whoever comes late hears the same, and so does everybody', STORES, async (t, data) => {
  const { stage, orchestrator } = await begin(t, data);
  await orchestrator.submit({ job_id: 'a' });
  await stage.startedCount(1);
  const readings = [readAll(orchestrator.events('a'))];
  for (let part = 0; part < 5; part++) {
    say(stage, 'a:1', part * 10, part * 10 + 10);
    await turns(3);
    readings.push(readAll(orchestrator.events('a')));
  }
  stage.end('a:1');
  for (const reading of readings) assert.deepEqual(tokensOf(await within(reading)), WORDS(50));
});

onStores(
  'tokens that come while the commit of the start is under way are heard once, in order',
  LASTING,
  async (t, data) => {
    const held = holdable(data);
    const stage = new Stage();
    t.after(async () => {
      await held.release();
      stage.endAll();
    });
    const orchestrator = await start(t, { data, env: held.env, backends: [stage] });
    stage.answer = async () => {
      await held.hold();
      return undefined;
    };
    await orchestrator.submit({ job_id: 'a' });
    await held.commitWaits();
    const reading = readAll(orchestrator.events('a'));
    await turns();
    say(stage, 'a:1', 0, 5);
    await turns();
    await held.release();
    await turns();
    say(stage, 'a:1', 5, 10);
    stage.end('a:1');
    assert.deepEqual(tokensOf(await within(reading)), WORDS(10));
  },
);

onStores('a reader goes on where it stopped', STORES, async (t, data) => {
  const { stage, orchestrator } = await begin(t, data);
  await orchestrator.submit({ job_id: 'a' });
  await stage.startedCount(1);
  say(stage, 'a:1', 0, 20);
  let last: string | undefined;
  let heard = 0;
  for await (const { type, id } of orchestrator.events('a')) {
    if (type !== 'token') continue;
    last = id;
    if (++heard === 7) break;
  }
  say(stage, 'a:1', 20, 30);
  stage.end('a:1');
  const rest = await within(readAll(orchestrator.events('a', { after: last! })));
  assert.deepEqual(tokensOf(rest), WORDS(30).slice(7));
  const end = rest.at(-1)!;
  assert.deepEqual(
    await within(readAll(orchestrator.events('a', { after: end.id! }))),
    [],
    'nothing is left',
  );
});

onStores(
  'another attempt is announced: what the first one said no longer counts',
  STORES,
  async (t, data) => {
    const stage = new Stage();
    t.after(() => stage.endAll());
    const config = 'orchestrator: {retry: {base_delay_ms: 1, jitter: 0}}';
    const orchestrator = await start(t, { data, backends: [stage], config });
    await orchestrator.submit({ job_id: 'a' });
    const reading = readAll(orchestrator.events('a'));
    await stage.startedCount(1);
    say(stage, 'a:1', 0, 2);
    await turns();
    stage.end('a:1', { ok: false, error: { code: 'WORKER_TIMEOUT', message: 'slow', retriable: true } });
    await stage.startedCount(2);
    say(stage, 'a:2', 0, 3);
    stage.end('a:2');
    const events = (await within(reading)).filter(({ type }) => ['token', 'reset', 'end'].includes(type));
    const seen = events.map(({ type }) => type);
    assert.deepEqual(seen, ['token', 'token', 'reset', 'token', 'token', 'token', 'end']);
  },
);

onStores(
  'every way to end is told: cancelled, dead, and over before anybody asked',
  STORES,
  async (t, data) => {
    const { stage, orchestrator } = await begin(t, data);
    await orchestrator.submit({ job_id: 'cancelled' });
    await orchestrator.submit({ job_id: 'dead', max_tries: 1 });
    const readings = ['cancelled', 'dead'].map((id) => readAll(orchestrator.events(id)));
    await stage.startedCount(2);
    await orchestrator.cancel('cancelled');
    stage.end('dead:1', { ok: false, error: { code: 'EXECUTION_FAILED', message: 'no', retriable: false } });
    const ends = (await within(Promise.all(readings))).map((events) => events.at(-1)!);
    assert.deepEqual(
      ends.map(({ type }) => type),
      ['error', 'error'],
    );
    assert.deepEqual(
      ends.map(({ data }) => (data as { code: string }).code),
      ['CANCELLED', 'EXECUTION_FAILED'],
    );
    while (engineOf(orchestrator).state.jobs.size > 0) await turns(1);
    const late = await within(readAll(orchestrator.events('dead')));
    assert.deepEqual(
      late.map(({ type }) => type),
      ['error'],
    );
  },
);

onStores('a reader that leaves is forgotten, and the job goes on', STORES, async (t, data) => {
  const { stage, orchestrator } = await begin(t, data);
  await orchestrator.submit({ job_id: 'a' });
  await stage.startedCount(1);
  say(stage, 'a:1', 0, 3);
  for await (const { type } of orchestrator.events('a')) if (type === 'token') break;
  assert.equal(orchestrator.following.followers, 0);
  stage.end('a:1');
  assert.equal((await orchestrator.wait('a')).state, 'succeeded');
});

onStores('stopping the brain ends every stream and tells everybody who waits', STORES, async (t, data) => {
  const { stage, orchestrator } = await begin(t, data);
  await orchestrator.submit({ job_id: 'a' });
  await stage.startedCount(1);
  const reading = readAll(orchestrator.events('a'));
  const waiting = orchestrator.wait('a').catch((error: { code: string }) => error.code);
  await turns();
  await orchestrator.stop();
  assert.equal(
    (await within(reading)).some(({ type }) => type === 'end'),
    false,
  );
  assert.equal(await within(waiting), 'SHUTTING_DOWN');
});

onStores('wait tells the whole job, also one that is over, also to many at once', STORES, async (t, data) => {
  const { stage, orchestrator } = await begin(t, data);
  await orchestrator.submit({ job_id: 'a' });
  const waits = Array.from({ length: 50 }, () => orchestrator.wait('a'));
  await stage.startedCount(1);
  stage.end('a:1', { ok: true, resultText: JSON.stringify({ n: 'x'.repeat(10_000) }) });
  for (const job of await within(Promise.all(waits))) {
    assert.equal(job.state, 'succeeded');
    assert.equal((job.result as { n: string }).n.length, 10_000);
  }
  assert.deepEqual((await orchestrator.wait('a')).state, 'succeeded');
});
