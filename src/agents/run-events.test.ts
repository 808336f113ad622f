import assert from 'node:assert/strict';
import { test } from 'node:test';
import { OrchdError } from '../model/errors.ts';
import type { JobView } from '../model/http/jobs.ts';
import type { JobEvent } from '../runtime/job-events.ts';
import type { RunEvent, RunSources } from './call-events.ts';
import { runEvents } from './run-events.ts';
import { placeOf } from './run-place.ts';

interface Told {
  readonly jobs: Readonly<Record<string, Partial<JobView>>>;
  readonly events: Readonly<Record<string, readonly JobEvent[]>>;
}

/** Sources with these jobs and events; `followed` notes who was followed, and from where. */
function sourcesOf({ jobs, events }: Told, followed: string[] = []): RunSources {
  return {
    async *follow(id, after) {
      followed.push(after === undefined ? id : `${id} after ${after}`);
      if (!jobs[id]) throw new OrchdError('NOT_FOUND');
      yield* events[id] ?? [];
    },
    async read(id) {
      const job = jobs[id];
      if (!job) throw new OrchdError('NOT_FOUND');
      return { job_id: id, ...job } as JobView;
    },
  };
}

const waiting = (...jobs: string[]): JobEvent => ({ type: 'waiting', data: { job_id: 'r', step: 1, jobs } });
const ended = (id: string, result: unknown): JobEvent => ({
  type: 'end',
  id: '1.end',
  data: { job_id: id, state: 'succeeded', result },
});
const tool = (state = 'running') =>
  ({ type: 'tool', state, tags: { agent: 'a', event: 'tool_call', tool: 'send' } }) as Partial<JobView>;

async function told(sources: RunSources, after?: string): Promise<RunEvent[]> {
  const events: RunEvent[] = [];
  for await (const event of runEvents(sources, 'r', placeOf(after))) events.push(event);
  return events;
}

const brief = ({ id, event }: RunEvent): string => (id === undefined ? event : `${event} ${id}`);

test('a call whose outcome is unknown needs a decision, which is told once', async () => {
  const stale: JobEvent = { type: 'stale', data: { job_id: 'r.1.0' } };
  const events = await told(
    sourcesOf({
      jobs: { r: { state: 'queued' }, 'r.1.0': tool('stale') },
      events: { r: [waiting('r.1.0')], 'r.1.0': [stale, stale, ended('r.1.0', { ok: true, text: 'x' })] },
    }),
  );
  assert.deepEqual(events.map(brief), ['step 1:c0', 'needs_decision', 'tool_result 1:c1']);
  assert.deepEqual(events[1]?.data, { call_id: 'r.1.0', tool: 'send' });
  assert.partialDeepStrictEqual(events[2]?.data, { call_id: 'r.1.0', tool: 'send', ok: true });
});

test('a call of the model whose outcome is unknown needs a decision too', async () => {
  const stale: JobEvent = { type: 'stale', data: { job_id: 'r.1' } };
  const started: JobEvent = { type: 'started', data: {} };
  const events = await told(
    sourcesOf({
      jobs: { r: { state: 'queued' }, 'r.1': { type: 'inference', state: 'stale' } },
      events: { r: [waiting('r.1')], 'r.1': [stale, stale, started, stale, ended('r.1', { text: 'x' })] },
    }),
  );
  assert.deepEqual(events.map(brief), ['step 1:0.0', 'needs_decision', 'needs_decision', 'token 1:1.end']);
  assert.deepEqual(events[1]?.data, { call_id: 'r.1' });
});

test('a call that is in doubt once more, after it was tried again, needs another decision', async () => {
  const stale: JobEvent = { type: 'stale', data: { job_id: 'r.1.0' } };
  const started: JobEvent = { type: 'started', data: {} };
  const events = await told(
    sourcesOf({
      jobs: { r: { state: 'queued' }, 'r.1.0': tool('stale') },
      events: { r: [waiting('r.1.0')], 'r.1.0': [stale, started, stale] },
    }),
  );
  assert.deepEqual(events.map(brief), ['step 1:c0', 'needs_decision', 'needs_decision']);
});

test('a reader that comes after a step of which some calls were refused gets the results of the others', async () => {
  const steps = [{ job_id: 'r.1' }, { job_id: 'r.2.1' }, { job_id: 'r.2.3' }, { job_id: 'r.3' }];
  const done = (id: string) => [ended(id, { ok: true, text: '' })];
  const sources = sourcesOf({
    jobs: { r: { state: 'succeeded' }, 'r.2.1': tool('succeeded'), 'r.2.3': tool('succeeded') },
    events: { r: [ended('r', { reply: 'x', steps })], 'r.2.1': done('r.2.1'), 'r.2.3': done('r.2.3') },
  });
  const results = ['tool_result 2:c2', 'tool_result 2:ca', 'end end'];
  assert.deepEqual((await told(sources, '1:1.end')).map(brief), ['step 2:c0', ...results]);
  assert.deepEqual((await told(sources, '2:c2')).map(brief), results.slice(1));
  const live = sourcesOf({
    jobs: { r: { state: 'waiting' }, 'r.2.1': tool(), 'r.2.3': tool() },
    events: { r: [waiting('r.2.1', 'r.2.3')], 'r.2.1': done('r.2.1'), 'r.2.3': done('r.2.3') },
  });
  assert.deepEqual((await told(live, '2:c2')).map(brief), ['tool_result 2:ca']);
});

test('a reader that has some results of a step follows the other calls alone', async () => {
  const jobs = { r: { state: 'waiting' }, 'r.2.0': tool(), 'r.2.1': tool(), 'r.2.2': tool() } as const;
  const events = Object.fromEntries(
    Object.keys(jobs).map((id) => [id, [ended(id, { ok: true, text: '' })]] as const),
  );
  const followed: string[] = [];
  const sources = sourcesOf(
    { jobs, events: { ...events, r: [waiting('r.2.0', 'r.2.1', 'r.2.2')] } },
    followed,
  );
  assert.deepEqual((await told(sources, '2:c2')).map(brief), ['tool_result 2:c3', 'tool_result 2:c7']);
  assert.deepEqual(followed, ['r', 'r.2.0', 'r.2.2']);
});

test('the words of a call that has ended come anew, after a reset', async () => {
  const reset: JobEvent = { type: 'reset', data: { attempt: 1 } };
  const steps = [{ job_id: 'r.1' }, { job_id: 'r.2.0' }];
  const sources = sourcesOf({
    jobs: { r: { state: 'succeeded' }, 'r.1': { type: 'inference' }, 'r.2.0': tool('succeeded') },
    events: {
      r: [ended('r', { reply: 'x', steps })],
      'r.1': [reset, ended('r.1', { text: 'all of it' })],
      'r.2.0': [ended('r.2.0', { ok: false })],
    },
  });
  const events = await told(sources, '1:1.4');
  assert.deepEqual(events.map(brief), ['reset', 'token 1:1.end', 'step 2:c0', 'tool_result 2:c1', 'end end']);
  assert.partialDeepStrictEqual(events[1]?.data, { t: 'all of it', job_id: 'r.1' });
  assert.partialDeepStrictEqual(events[3]?.data, { ok: false });
  // Whoever has received nothing gets the end, which has all of it.
  assert.deepEqual((await told(sources)).map(brief), ['end end']);
});

const token = (n: number): JobEvent => ({ type: 'token', id: `1.${n}`, data: { t: `${n} `, i: n } });
const failed = (id: string, state = 'dead'): JobEvent => ({
  type: 'error',
  id: '1.end',
  data: { job_id: id, state, code: 'WORKER_TIMEOUT', message: 'late' },
});

test('the words of a call of the model that has failed are taken back, before the next call', async () => {
  const inference = { type: 'inference' } as const;
  const sources = sourcesOf({
    jobs: { r: { state: 'queued' }, 'r.1': inference, 'r.2': inference, 'r.3': inference },
    events: {
      r: [waiting('r.1'), waiting('r.2'), waiting('r.3')],
      'r.1': [token(1), failed('r.1')],
      'r.2': [failed('r.2')],
      'r.3': [token(1), ended('r.3', { text: '1 ' })],
    },
  });
  const events = await told(sources);
  const words = ['step 1:0.0', 'token 1:1.1', 'reset', 'step 2:0.0', 'step 3:0.0', 'token 3:1.1'];
  assert.deepEqual(events.map(brief), words, 'a call that has said nothing is not taken back');
  assert.deepEqual(events[2]?.data, { job_id: 'r.1', code: 'WORKER_TIMEOUT' });
  const resumed = sourcesOf({
    jobs: { r: { state: 'queued' }, 'r.1': inference, 'r.2': inference },
    events: { r: [waiting('r.2')], 'r.1': [failed('r.1')], 'r.2': [token(1)] },
  });
  assert.deepEqual((await told(resumed, '1:1.1')).map(brief), ['reset', 'step 2:0.0', 'token 2:1.1']);
});

test('the words of a call that is cancelled with its run are not taken back', async () => {
  const sources = sourcesOf({
    jobs: { r: { state: 'queued' }, 'r.1': { type: 'inference' } },
    events: { r: [waiting('r.1')], 'r.1': [token(1), failed('r.1', 'cancelled')] },
  });
  assert.deepEqual((await told(sources)).map(brief), ['step 1:0.0', 'token 1:1.1']);
});

test('a pause is told in the middle of a step, once, and the ids of later events know it', async () => {
  const gates = new Map(['token', 'paused', 'resumed'].map((name) => [name, Promise.withResolvers<void>()]));
  const isTold = (name: string) => gates.get(name)?.promise;
  const paused: JobEvent = { type: 'paused', data: { job_id: 'r', at: 1, by: 'ann' } };
  const sources: RunSources = {
    ...sourcesOf({ jobs: { r: { state: 'queued' }, 'r.1': { type: 'inference' } }, events: {} }),
    async *follow(id) {
      if (id === 'r.1') {
        yield token(1);
        await isTold('paused');
        yield token(2);
        await isTold('resumed');
        return yield token(3);
      }
      yield waiting('r.1');
      await isTold('token');
      yield paused;
      yield paused;
      await isTold('paused');
      yield { type: 'resumed', data: { job_id: 'r' } };
    },
  };
  const events: RunEvent[] = [];
  for await (const event of runEvents(sources, 'r', undefined)) {
    events.push(event);
    gates.get(event.event)?.resolve();
  }
  const pause = events.find(({ event }) => event === 'paused');
  assert.deepEqual([pause?.id, pause?.data], ['1:1.1p', { job_id: 'r', at: 1, by: 'ann' }]);
  assert.deepEqual(events.map(brief).slice(0, 3), ['step 1:0.0', 'token 1:1.1', 'paused 1:1.1p']);
  assert.deepEqual(events.map(({ event }) => event).toSorted(), [
    'paused',
    'resumed',
    'step',
    'token',
    'token',
    'token',
  ]);
  assert.equal(events.at(-1)?.id, '1:1.3');
});

test('a reader that comes back learns that a pause has ended meanwhile, and of no pause that it knows', async () => {
  const paused = { at: 1, by: 'ann' };
  const pause: JobEvent = { type: 'paused', data: { job_id: 'r', ...paused } };
  const sources = (job: Partial<JobView>, ...of: JobEvent[]) =>
    sourcesOf({ jobs: { r: job, 'r.1.0': tool() }, events: { r: [...of, waiting('r.1.0')] } });
  const still = sources({ state: 'waiting', paused }, pause);
  assert.deepEqual((await told(still, '1:c0p')).map(brief), []);
  assert.deepEqual((await told(still, '1:c0')).map(brief), ['paused 1:c0p']);
  assert.deepEqual((await told(sources({ state: 'waiting' }), '1:c0p')).map(brief), ['resumed 1:c0']);
  assert.deepEqual((await told(sources({ state: 'waiting' }), '1:c0')).map(brief), []);
  const over = sourcesOf({ jobs: { r: { state: 'cancelled' } }, events: { r: [failed('r', 'cancelled')] } });
  assert.deepEqual((await told(over, '1:c0p')).map(brief), ['error end'], 'its end says enough');
});

test('a pause before the first event with an id is told without one', async () => {
  const sources = sourcesOf({
    jobs: { r: { state: 'queued', paused: { at: 1, by: 'ann' } } },
    events: {
      r: [
        { type: 'paused', data: {} },
        { type: 'queued', data: {} },
      ],
    },
  });
  assert.deepEqual((await told(sources)).map(brief).toSorted(), ['paused', 'queued']);
});

test('a text that is no id of an event is refused', () => {
  for (const id of ['x', '1:c0pp', '1:p', '1:', '1:c', '1:cx', '1:1', 'c1', `1:c${'f'.repeat(33)}`])
    assert.throws(() => placeOf(id), { code: 'INVALID_PARAMS' }, id);
  assert.equal(placeOf(''), undefined);
});
