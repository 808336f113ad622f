/** The streams and answers of each dialect, where they are not as the fakes of test/fakes/providers send them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AnswerPiece } from '../../model/inference.ts';
import type { Usage } from '../../model/worker-wire.ts';
import { batchResult, batchState, resultLine } from './anthropic-batches.ts';
import { messageResult } from './anthropic-messages.ts';
import { MessageAnswer } from './anthropic-stream.ts';
import { completionResult, StreamedAnswer } from './openai-chat.ts';
import { hasEnded, responseResult } from './openai-responses.ts';
import { ResponsesAnswer } from './openai-responses-stream.ts';

function listener() {
  const pieces: AnswerPiece[] = [];
  const usages: Usage[] = [];
  return {
    pieces,
    usages,
    emit: (piece: AnswerPiece) => void pieces.push(piece),
    noteUsage: (usage: Usage | undefined) => void (usage && usages.push(usage)),
  };
}

const message = (...events: object[]) => {
  const heard = listener();
  const answer = new MessageAnswer(heard);
  for (const event of events) answer.add(JSON.stringify(event));
  return { ...heard, answer };
};
const START = { type: 'message_start', message: { usage: { input_tokens: 3, output_tokens: 1 } } };
const text = (index: number) => ({
  type: 'content_block_start',
  index,
  content_block: { type: 'text', text: '' },
});
const delta = (index: number, words: string) => ({
  type: 'content_block_delta',
  index,
  delta: { type: 'text_delta', text: words },
});
const stop = (index: number) => ({ type: 'content_block_stop', index });

test('the tokens of the prompt are known with the first event of a message', () => {
  const { usages } = message(START);
  assert.deepEqual(usages, [{ prompt_tokens: 3, completion_tokens: 1, partial: true }]);
});

test('later counts of a message replace earlier ones, where there are any', () => {
  const { answer } = message(START, {
    type: 'message_delta',
    delta: { stop_reason: 'max_tokens' },
    usage: { output_tokens: 8, input_tokens: null },
  });
  assert.deepEqual(answer.result(), {
    text: '',
    finish_reason: 'length',
    usage: { prompt_tokens: 3, completion_tokens: 8 },
  });
});

const BAD_BLOCKS: [string, object[]][] = [
  ['begins twice', [text(0), text(0)]],
  ['is left out', [text(1)]],
  ['is continued before it begins', [delta(0, 'a')]],
  ['is continued after its end', [text(0), stop(0), delta(0, 'a')]],
  ['ends twice', [text(0), stop(0), stop(0)]],
];
for (const [what, events] of BAD_BLOCKS) {
  test(`a block that ${what} is an error`, () => {
    assert.throws(() => message(START, ...events), { code: 'WORKER_PROTOCOL' });
  });
}

test('what is unknown in a message is left out', () => {
  const { answer } = message(
    START,
    START,
    { type: 'ping' },
    { type: 'something_new' },
    { type: 'content_block_start', index: 0, content_block: { type: 'server_tool_use' } },
    stop(0),
    text(1),
    delta(1, 'Yes.'),
    { type: 'content_block_delta', index: 1, delta: { type: 'citations_delta' } },
    stop(1),
    { type: 'message_delta', delta: { stop_reason: 'refusal' } },
    { type: 'message_stop' },
    { type: 'message_stop' },
  );
  const { text: found, finish_reason } = answer.result();
  assert.deepEqual([found, finish_reason, answer.ended], ['Yes.', 'content_filter', true]);
});

test('a whole message has text, thoughts and calls', () => {
  const content = [
    { type: 'thinking', thinking: 'Hm.' },
    { type: 'text', text: 'I look.' },
    { type: 'tool_use', id: 'c', name: 'look', input: { far: true } },
  ];
  assert.deepEqual(
    messageResult({ content, stop_reason: 'tool_use', usage: { input_tokens: 1, output_tokens: 2 } }),
    {
      text: 'I look.',
      finish_reason: 'tool_calls',
      reasoning: 'Hm.',
      tool_calls: [{ id: 'c', type: 'function', function: { name: 'look', arguments: '{"far":true}' } }],
      usage: { prompt_tokens: 1, completion_tokens: 2 },
    },
  );
});

const numbered = (sequence_number: number, words: string) =>
  JSON.stringify({ type: 'response.output_text.delta', sequence_number, delta: words, output_index: 0 });
const created = JSON.stringify({
  type: 'response.created',
  sequence_number: 0,
  response: { id: 'resp_1', status: 'in_progress' },
});
const said = (words: string) => [{ type: 'message', content: [{ type: 'output_text', text: words }] }];

test('events of a response are taken by their numbers: once, and in their order', () => {
  const heard = listener();
  const answer = new ResponsesAnswer(heard);
  for (const event of [
    created,
    created,
    numbered(2, 'b'),
    numbered(1, 'a'),
    numbered(1, 'a'),
    numbered(3, 'c'),
  ])
    answer.add(event);
  assert.deepEqual(heard.pieces, [{ text: 'a' }, { text: 'b' }, { text: 'c' }]);
  assert.equal(answer.id, 'resp_1');
});

test('however many events come twice, they take no room', () => {
  const answer = new ResponsesAnswer(listener());
  answer.add(created);
  for (let number = 1; number < 2000; number++)
    for (const words of ['a', 'again']) answer.add(numbered(number, words));
  const missing = () => {
    for (let number = 2001; number < 4000; number++) answer.add(numbered(number, 'a'));
  };
  assert.throws(missing, { code: 'WORKER_PROTOCOL' });
});

test('the end of a response brings what its events have not', () => {
  const heard = listener();
  const answer = new ResponsesAnswer(heard);
  answer.add(created);
  answer.add(numbered(1, 'Good '));
  answer.add(numbered(3, 'lost'));
  const call = { type: 'function_call', call_id: 'c', name: 'look', arguments: '{}' };
  const result = answer.finish({ status: 'completed', output: [...said('Good morning'), call] });
  assert.deepEqual([result.text, result.finish_reason], ['Good morning', 'tool_calls']);
  assert.deepEqual(heard.pieces, [
    { text: 'Good ' },
    { text: 'morning' },
    { toolCalls: [{ index: 0, id: 'c', type: 'function', function: { name: 'look', arguments: '' } }] },
    { toolCalls: [{ index: 0, function: { arguments: '{}' } }] },
  ]);
});

const ENDS: [object, object][] = [
  [
    { status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } },
    { finish_reason: 'length' },
  ],
  [
    { status: 'incomplete', incomplete_details: { reason: 'content_filter' } },
    { finish_reason: 'content_filter' },
  ],
  [{ status: 'completed' }, { finish_reason: 'stop' }],
];
for (const [response, expected] of ENDS) {
  test(`a response with ${JSON.stringify(response)}`, () => {
    assert.deepEqual(responseResult({ ...response, output: said('a') }), { text: 'a', ...expected });
  });
}

test('only the statuses of an end are an end', () => {
  for (const status of ['queued', 'in_progress', 'something new', undefined])
    assert.equal(hasEnded({ status }), false);
  assert.equal(hasEnded({ status: 'incomplete' }), true);
});

test('a response that failed or was cancelled has no result', () => {
  const limited = {
    status: 'failed',
    error: { code: 'rate_limit_exceeded', message: 'slow down' },
    output: [],
  };
  assert.throws(() => responseResult(limited), { code: 'RATE_LIMITED', message: /slow down/ });
  const begun = { ...limited, output: said('a') };
  assert.throws(() => responseResult(begun), { code: 'EXECUTION_FAILED' });
  assert.throws(() => responseResult({ status: 'cancelled' }), { code: 'EXECUTION_FAILED' });
});

test('a chat streams what the model thinks, under both names for it', () => {
  const heard = listener();
  const answer = new StreamedAnswer(heard);
  for (const name of ['reasoning_content', 'reasoning'])
    answer.addChunk(JSON.stringify({ choices: [{ delta: { [name]: 'Hm.' } }] }));
  assert.deepEqual(heard.pieces, [{ reasoning: 'Hm.' }, { reasoning: 'Hm.' }]);
  assert.equal(answer.result().reasoning, 'Hm.Hm.');
});

test('a stored chat completion is a result; one without choices is not', () => {
  const choice = { message: { content: null, refusal: 'No.' }, finish_reason: 'stop' };
  assert.deepEqual(completionResult({ choices: [choice] }), { text: 'No.', finish_reason: 'stop' });
  assert.throws(() => completionResult({ choices: [] }), { code: 'WORKER_PROTOCOL' });
});

test('the result of a batch is found by its tag among those of others', () => {
  const lines = [
    '{"custom_id":"tag-2","result":{"type":"canceled"}}',
    '{"custom_id":"tag',
    '{"custom_id":"tag","result":{"type":"expired"}}',
  ];
  assert.deepEqual(resultLine(lines.join('\n'), 'tag'), { type: 'expired' });
  assert.equal(resultLine(lines.join('\n'), 'other'), undefined);
  assert.throws(() => batchResult({ type: 'canceled' }), { code: 'EXECUTION_FAILED' });
  assert.throws(() => batchResult({ type: 'new' }), { code: 'WORKER_PROTOCOL' });
});

test('a batch says whether it has ended, and how many requests it has', () => {
  assert.deepEqual(
    batchState({
      id: 'b',
      processing_status: 'canceling',
      created_at: '1970-01-01T00:00:01Z',
      request_counts: { processing: 1, succeeded: 2 },
    }),
    {
      id: 'b',
      hasEnded: false,
      resultsUrl: undefined,
      createdAt: 1000,
      requests: 3,
    },
  );
  assert.throws(() => batchState({}), { code: 'WORKER_PROTOCOL' });
});
