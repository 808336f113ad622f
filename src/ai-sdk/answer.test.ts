import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { LanguageModelV4StreamPart } from '@ai-sdk/provider';
import { JobSink } from '../api/openai/job-sink.ts';
import { answerOf, contentOf } from './answer.ts';
import { AnswerParts } from './answer-parts.ts';

const ID = { jobId: 'run.0123.1', mark: '0123-1', release: () => undefined };
const NOTHING = { text: '', reasoning: '', tokens: 0 };
const CALL = { id: 'c1', type: 'function', function: { name: 'look', arguments: '{"far":1}' } } as const;

const read = (result: unknown) => answerOf({ result }, NOTHING, ID);

test('a result becomes reasoning, text and calls, with its reason and its tokens', () => {
  const usage = {
    prompt_tokens: 100,
    completion_tokens: 20,
    cache_read_tokens: 60,
    cache_write_tokens: 10,
    reasoning_tokens: 15,
  };
  const answer = read({ text: 'a', reasoning: 'hm', tool_calls: [CALL], finish_reason: 'tool_calls', usage });
  assert.deepEqual(contentOf(answer), [
    { type: 'reasoning', text: 'hm' },
    { type: 'text', text: 'a' },
    { type: 'tool-call', toolCallId: 'c1', toolName: 'look', input: '{"far":1}' },
  ]);
  assert.deepEqual(answer.finishReason, { unified: 'tool-calls', raw: 'tool_calls' });
  assert.deepEqual(answer.usage, {
    inputTokens: { total: 100, noCache: 30, cacheRead: 60, cacheWrite: 10 },
    outputTokens: { total: 20, text: 5, reasoning: 15 },
    raw: usage,
  });
  assert.deepEqual(answer.providerMetadata, { orchd: { job_id: ID.jobId } });
});

test('tokens that nobody has counted are undefined, and no zeros', () => {
  const { usage } = read({ text: 'a' });
  assert.deepEqual(
    [usage.inputTokens.total, usage.outputTokens.total, usage.raw],
    [undefined, undefined, undefined],
  );
  const counted = read({ text: 'a', usage: { prompt_tokens: 3, completion_tokens: 2 } }).usage;
  assert.deepEqual(counted.inputTokens, {
    total: 3,
    noCache: 3,
    cacheRead: undefined,
    cacheWrite: undefined,
  });
  assert.deepEqual(counted.outputTokens, { total: 2, text: undefined, reasoning: undefined });
});

test('every reason of an end has its name; a server that says "stop" and asks for a tool means the tool', () => {
  const reasonOf = (finish_reason: string, more: object = {}) =>
    read({ text: '', finish_reason, ...more }).finishReason;
  assert.equal(reasonOf('stop').unified, 'stop');
  assert.equal(reasonOf('length').unified, 'length');
  assert.equal(reasonOf('content_filter').unified, 'content-filter');
  assert.deepEqual(reasonOf('odd'), { unified: 'other', raw: 'odd' });
  assert.deepEqual(reasonOf('stop', { tool_calls: [CALL] }), { unified: 'tool-calls', raw: 'stop' });
});

test('fields of calls and results that have no place of their own are metadata', () => {
  const signed = { ...CALL, extra_content: { google: { thought_signature: 's' } } };
  const answer = answerOf(
    { result: { text: '', tool_calls: [signed], thread_id: 't' }, cost: { micros: 5 } },
    NOTHING,
    ID,
  );
  assert.deepEqual(answer.toolCalls[0]?.providerMetadata, {
    orchd: { extra_content: { google: { thought_signature: 's' } } },
  });
  assert.deepEqual(answer.providerMetadata, {
    orchd: { job_id: ID.jobId, cost: { micros: 5 }, thread_id: 't' },
  });
});

test('a call without an id has the same one in every start; empty arguments are an empty object', () => {
  const bare = { id: '', type: 'function', function: { name: 'look', arguments: '' } };
  const calls = read({ text: '', tool_calls: [bare, bare] }).toolCalls;
  assert.deepEqual(
    calls.map(({ toolCallId, input }) => [toolCallId, input]),
    [
      ['call-0123-1-0', '{}'],
      ['call-0123-1-1', '{}'],
    ],
  );
});

test('a backend that returns no text has its tokens as text, or its result', () => {
  assert.equal(answerOf({ result: null }, { ...NOTHING, text: 'said', tokens: 1 }, ID).text, 'said');
  assert.equal(read('plain').text, 'plain');
  assert.equal(read({ answer: 7 }).text, '{"answer":7}');
  assert.deepEqual(read({ answer: 7 }).providerMetadata, { orchd: { job_id: ID.jobId } });
});

/** The parts of a stream with these events; short, as `type` and what they carry. */
function partsOf(events: readonly (readonly [event: string, data: object, id?: string])[]) {
  const answer: AnswerParts = new AnswerParts(ID, () => sink.cost);
  const sink = new JobSink(answer);
  for (const [event, value, id] of events) sink.write([{ id, event, data: '', value }]);
  return { shown: answer.take().map(show), answer };
}

function show(part: LanguageModelV4StreamPart): string {
  const text = 'delta' in part ? part.delta : 'input' in part ? part.input : '';
  const id = 'toolCallId' in part ? part.toolCallId : 'id' in part ? part.id : '';
  return `${part.type} ${id} ${text}`.trim();
}

const token = (t: string, delta?: object) => ['token', { t, i: 0, ...(delta && { delta }) }, '1.1'] as const;
const called = (id: string | undefined, name: string | undefined, args: string) =>
  token('', { tool_calls: [{ index: 0, id, function: { name, arguments: args } }] });
const end = (result: object) => ['end', { state: 'succeeded', result }, '1.end'] as const;

test('pieces are blocks of reasoning and text, then calls, and the end', () => {
  const { shown } = partsOf([
    ['queued', {}],
    token('', { reasoning_content: 'h' }),
    token('', { reasoning_content: 'm' }),
    token('a '),
    token('fox'),
    called('c1', 'look', '{"far"'),
    called(undefined, undefined, ':1}'),
    end({ text: 'a fox', reasoning: 'hm', tool_calls: [CALL] }),
  ]);
  assert.deepEqual(shown, [
    'reasoning-start reasoning-0',
    'reasoning-delta reasoning-0 h',
    'reasoning-delta reasoning-0 m',
    'reasoning-end reasoning-0',
    'text-start text-1',
    'text-delta text-1 a',
    'text-delta text-1 fox',
    'text-end text-1',
    'tool-input-start c1',
    'tool-input-delta c1 {"far"',
    'tool-input-delta c1 :1}',
    'tool-input-end c1',
    'tool-call c1 {"far":1}',
    'finish',
  ]);
});

test('a job that has ended before it was followed is the same answer in few pieces', () => {
  const { shown } = partsOf([end({ text: 'a fox', reasoning: 'hm', tool_calls: [CALL] })]);
  assert.deepEqual(
    shown.filter((each) => !/-(start|end)/.test(each)),
    [
      'reasoning-delta reasoning-0 hm',
      'text-delta text-1 a fox',
      'tool-input-delta c1 {"far":1}',
      'tool-call c1 {"far":1}',
      'finish',
    ],
  );
});

test('a new attempt that says the same goes on where the last one ended, piece by piece', () => {
  const { shown, answer } = partsOf([token('a '), ['reset', { attempt: 2 }], token('a '), token('fox')]);
  assert.equal(answer.error, undefined);
  assert.deepEqual(shown, ['text-start text-0', 'text-delta text-0 a', 'text-delta text-0 fox']);
});

test('a new attempt that contradicts what was sent is an error at once, and nothing follows it', () => {
  for (const contradicting of [token('no '), end({ text: 'no fox' })]) {
    const { answer } = partsOf([token('a '), ['reset', { attempt: 2 }], contradicting]);
    assert.equal(answer.error?.details.reason, 'begun_again');
    answer.token('no fox', undefined);
    answer.ended({ value: { text: 'no fox' } });
    assert.deepEqual(answer.take(), []);
  }
});

test('a call of an attempt that failed is shown and never made', () => {
  const { shown, answer } = partsOf([
    called('old', 'look', '{"far"'),
    ['reset', { attempt: 2 }],
    called('c1', 'look', '{"far":1}'),
    end({ text: '', tool_calls: [CALL] }),
  ]);
  assert.equal(answer.error, undefined);
  assert.deepEqual(
    shown.filter((each) => each.startsWith('tool-call')),
    ['tool-call c1 {"far":1}'],
  );
  assert.ok(shown.includes('tool-input-end old'));
});
