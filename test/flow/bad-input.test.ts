/** Whatever is handed in: an error with a stable code, and nothing has changed. */

import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { type ErrorCode, OrchdError } from '../../src/index.ts';
import type { Orchestrator } from '../../src/runtime/orchestrator.ts';
import { engineOf } from '../fakes/engine-of.ts';
import { stateText } from '../fakes/engine-walk.ts';
import { onStores, refusalOf, STORES, start, tempFolder, turns } from './flow-kit.ts';
import { Stage } from './stage.ts';

const circular: Record<string, unknown> = {};
circular['self'] = circular;

const deep = (levels: number): unknown => (levels === 0 ? 0 : { in: deep(levels - 1) });

/** Bad requests by what is wrong with them; all are refused with INVALID_PARAMS unless said otherwise. */
const WRONG_SUBMITS: Readonly<Record<string, unknown>> = {
  'no object': 'a job',
  nothing: undefined,
  'null itself': null,
  'a list': [],
  'an unknown field': { jobid: 'a' },
  'an empty id': { job_id: '' },
  'an id with a slash': { job_id: 'a/b' },
  'an id with a space': { job_id: 'a b' },
  'an id with a line end': { job_id: 'a\n' },
  'an id of 129 characters': { job_id: 'a'.repeat(129) },
  'an id that is a number': { job_id: 7 },
  'an empty key': { key: '' },
  'a key of 256 characters': { key: 'k'.repeat(256) },
  'a key that is null': { key: null },
  'a key with half a character': { key: 'a\ud83e' },
  'an agent with a space': { agent: 'a b' },
  'an empty session': { session_id: '' },
  'parallel as text': { parallel: 'yes' },
  'a type with a space': { type: 'a b' },
  'an unknown priority': { priority: 'urgent' },
  'a score that is not finite': { score: Number.POSITIVE_INFINITY },
  'a score that is no number': { score: Number.NaN },
  'a weight of zero': { weight: 0 },
  'a negative weight': { weight: -1 },
  'a time before 1970': { not_before: -1 },
  'a time that is no whole number': { not_before: 1.5 },
  'a deadline of zero': { deadline_ms: 0 },
  'a negative timeout': { timeout_ms: -5 },
  'no tries': { max_tries: 0 },
  'too many tries': { max_tries: 101 },
  'a parent with a bad id': { parent_id: 'a b' },
  'a job to wait for with a bad id': { after: ['a b'] },
  'no job to wait for': { after: [] },
  'a job to wait for twice': { after: ['a', 'a'] },
  'more than 1,000 jobs to wait for': { after: Array.from({ length: 1001 }, (_, n) => `j${n}`) },
  'an end to wait for that is none': { after: ['a'], after_policy: 'failed' },
  'an unknown policy': { on_unknown: 'guess' },
  'labels as a list': { labels: ['a'] },
  'a label that is a number': { labels: { a: 1 } },
  'a label of 129 characters': { labels: { a: 'x'.repeat(129) } },
  'a label whose name has a space': { labels: { 'a b': 'x' } },
  'a label whose name has a line end': { labels: { 'a\nb': 'x' } },
  'seventeen labels': { labels: Object.fromEntries(Array.from({ length: 17 }, (_, n) => [`l${n}`, 'x'])) },
  'no messages': { messages: [] },
  'a message that is text': { messages: ['hello'] },
  'a temperature of 3': { temperature: 3 },
  'a payload and a prompt': { payload: {}, prompt: 'x' },
  'a payload that is circular': { payload: circular },
  'a payload with a bigint': { payload: { n: 1n } },
  'a payload 70 levels deep': { payload: deep(70) },
  'a payload 100,000 levels deep': { payload: deepList(100_000) },
  'a payload that is too large': { payload: 'x'.repeat(17 * 2 ** 20) },
};

function deepList(levels: number): unknown {
  let value: unknown = 0;
  for (let level = 0; level < levels; level++) value = [value];
  return value;
}

interface WrongCall {
  readonly code: ErrorCode;
  readonly call: (orchestrator: Orchestrator) => Promise<unknown>;
}

/** Calls on a brain with a job "live" that waits, a job "held" whose outcome is unknown and a job "done". */
const WRONG_CALLS: Readonly<Record<string, WrongCall>> = {
  'get of nobody': { code: 'NOT_FOUND', call: (o) => o.get('nobody') },
  'get of another tenant': { code: 'NOT_FOUND', call: (o) => o.get('live', 'acme') },
  'get of no id': { code: 'NOT_FOUND', call: (o) => o.get('') },
  'wait for nobody': { code: 'NOT_FOUND', call: (o) => o.wait('nobody') },
  'events of nobody': { code: 'NOT_FOUND', call: (o) => o.events('nobody').next() },
  'events after something that is no id': {
    code: 'INVALID_PARAMS',
    call: (o) => o.events('live', { after: 'x' }).next(),
  },
  'cancel of nobody': { code: 'NOT_FOUND', call: (o) => o.cancel('nobody') },
  'cancel of another tenant': { code: 'NOT_FOUND', call: (o) => o.cancel('live', 'me', 'acme') },
  'redrive of nobody': { code: 'NOT_FOUND', call: (o) => o.redrive('nobody') },
  'redrive of a job that waits': { code: 'ILLEGAL_STATE', call: (o) => o.redrive('live') },
  'redrive of a job that is done': { code: 'ILLEGAL_STATE', call: (o) => o.redrive('done') },
  'resolve of nobody': { code: 'NOT_FOUND', call: (o) => o.resolve('nobody', { as: 'retry' }) },
  'resolve of a job that waits': { code: 'ILLEGAL_STATE', call: (o) => o.resolve('live', { as: 'retry' }) },
  'resolve of a job that is done': {
    code: 'ILLEGAL_STATE',
    call: (o) => o.resolve('done', { as: 'failed' }),
  },
  'resolve in a way that is none': {
    code: 'INVALID_PARAMS',
    call: (o) => o.resolve('held', { as: 'maybe' } as never),
  },
  'resolve without a way': { code: 'INVALID_PARAMS', call: (o) => o.resolve('held', {} as never) },
  'resolve with a result that is circular': {
    code: 'INVALID_PARAMS',
    call: (o) => o.resolve('held', { as: 'succeeded', result: circular }),
  },
  'list with an unknown state': { code: 'INVALID_PARAMS', call: (o) => o.list({ state: 'sleeping' }) },
  'list with an unknown filter': { code: 'INVALID_PARAMS', call: (o) => o.list({ states: 'x' } as never) },
  'list with a bad cursor': { code: 'INVALID_PARAMS', call: (o) => o.list({ cursor: 'x' }) },
  'list of none': { code: 'INVALID_PARAMS', call: (o) => o.list({ limit: 0 }) },
  'list of too many': { code: 'INVALID_PARAMS', call: (o) => o.list({ limit: 1001 }) },
  'a child of nobody': { code: 'ADMISSION_REJECT', call: (o) => o.submit({ parent_id: 'nobody' }) },
  'a child of a job that is done': { code: 'ADMISSION_REJECT', call: (o) => o.submit({ parent_id: 'done' }) },
  'a job that waits for nobody': { code: 'ADMISSION_REJECT', call: (o) => o.submit({ after: ['nobody'] }) },
  'a job that waits for itself': {
    code: 'ADMISSION_REJECT',
    call: (o) => o.submit({ job_id: 'own', after: ['own'] }),
  },
  'another body for an id': { code: 'JOB_CONFLICT', call: (o) => o.submit({ job_id: 'live', payload: 2 }) },
  'another body for an id that is done': {
    code: 'JOB_CONFLICT',
    call: (o) => o.submit({ job_id: 'done', payload: 2 }),
  },
  'a tenant whose name is none': {
    code: 'INVALID_PARAMS',
    call: (o) => o.submit({}, { tenant: 'a~b' }),
  },
  'a tenant whose name has a line end': {
    code: 'INVALID_PARAMS',
    call: (o) => o.submit({}, { tenant: 'a\nb' }),
  },
};

async function begin(t: TestContext, data: string): Promise<Orchestrator> {
  const stage = new Stage({ types: ['run'], slots: 3 });
  const orchestrator = await start(t, { data, backends: [stage] });
  await orchestrator.submit({ job_id: 'live', type: 'waits', payload: 1 });
  await orchestrator.submit({ job_id: 'done', type: 'run', payload: 1 });
  await stage.startedCount(1);
  stage.end('done:1');
  await orchestrator.wait('done');
  stage.answer = () => Promise.reject(new Error('no answer'));
  stage.inspect = () => new Promise(() => undefined);
  await orchestrator.submit({ job_id: 'held', type: 'run' });
  while ((await orchestrator.get('held')).state !== 'stale') await turns(1);
  while (engineOf(orchestrator).state.jobs.has('done')) await turns(1);
  return orchestrator;
}

/** Returns the calls that were not refused as they should be, or left something behind. */
async function faultsOf(
  orchestrator: Orchestrator,
  cases: readonly (readonly [what: string, code: ErrorCode, call: () => Promise<unknown>])[],
): Promise<string[]> {
  const faults: string[] = [];
  for (const [what, code, call] of cases) {
    const before = stateText(engineOf(orchestrator));
    const refused = await refusalOf(call).catch((error: Error) => error);
    if (!(refused instanceof OrchdError)) faults.push(`${what}: ${refused.message}`);
    else if (refused.code !== code) faults.push(`${what}: ${refused.code}`);
    else if (refused.message.length < 5 || refused.message.length > 500)
      faults.push(`${what}: says too little or too much`);
    else if (stateText(engineOf(orchestrator)) !== before) faults.push(`${what}: it left a change behind`);
  }
  return faults;
}

onStores('every wrong submit is INVALID_PARAMS and changes nothing', STORES, async (t, data) => {
  const orchestrator = await begin(t, data);
  const cases = Object.entries(WRONG_SUBMITS).map(
    ([what, request]) => [what, 'INVALID_PARAMS', () => orchestrator.submit(request as never)] as const,
  );
  assert.deepEqual(await faultsOf(orchestrator, cases), []);
});

onStores('every wrong call has its code and changes nothing', STORES, async (t, data) => {
  const orchestrator = await begin(t, data);
  const cases = Object.entries(WRONG_CALLS).map(
    ([what, { code, call }]) => [what, code, () => call(orchestrator)] as const,
  );
  assert.deepEqual(await faultsOf(orchestrator, cases), []);
});

onStores('among many submits only the wrong ones are refused', STORES, async (t, data) => {
  const orchestrator = await start(t, { data, backends: [] });
  const requests = [
    { job_id: 'a' },
    { job_id: 'b c' },
    { job_id: 'd', parent_id: 'nobody' },
    { job_id: 'e' },
  ];
  const answers = await orchestrator.submitMany(requests);
  const told = answers.map((answer) => ('job_id' in answer ? answer.job_id : answer.code));
  assert.deepEqual(told, ['a', 'INVALID_PARAMS', 'ADMISSION_REJECT', 'e']);
  assert.equal(engineOf(orchestrator).state.jobs.size, 2);
});

onStores('a brain that has been stopped refuses every call', STORES, async (t, data) => {
  const orchestrator = await start(t, { data, backends: [] });
  await orchestrator.submit({ job_id: 'a' });
  await orchestrator.stop();
  const calls: Record<string, () => Promise<unknown>> = {
    submit: () => orchestrator.submit({}),
    submitMany: () => orchestrator.submitMany([{}]),
    get: () => orchestrator.get('a'),
    list: () => orchestrator.list(),
    wait: () => orchestrator.wait('a'),
    events: () => orchestrator.events('a').next(),
    cancel: () => orchestrator.cancel('a'),
    redrive: () => orchestrator.redrive('a'),
    resolve: () => orchestrator.resolve('a', { as: 'retry' }),
    checkpoint: () => orchestrator.checkpoint(),
  };
  const cases = Object.entries(calls).map(([what, call]) => [what, 'SHUTTING_DOWN', call] as const);
  assert.deepEqual(await faultsOf(orchestrator, cases), []);
});

test('a second brain on the same folder is refused, and the first goes on', async (t) => {
  const data = tempFolder(t);
  const orchestrator = await start(t, { data, backends: [] });
  const refused = await refusalOf(() => start(t, { data, backends: [] }));
  assert.deepEqual([refused.code, refused.status], ['STORE_LOCKED', 409]);
  await orchestrator.submit({ job_id: 'a' });
});
