/** Calls of the package `ai` over a queue whose model is a function: what arrives, what fails, what is cancelled. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  APICallError,
  generateText,
  isStepCount,
  jsonSchema,
  Output,
  RetryError,
  streamText,
  tool,
} from 'ai';
import { type OrchdOptions, orchd } from '../../src/ai-sdk/index.ts';
import { OrchdError } from '../../src/model/errors.ts';
import { Held, type Model, type Talk, talk, until } from './openai-kit.ts';

const model = ({ brain }: Talk, options: OrchdOptions = {}) => orchd({ url: brain.url, ...options })('tiny');

const counting = (): { readonly model: Model; readonly said: string[] } => {
  const said: string[] = [];
  return {
    said,
    model: () => {
      said.push(`answer ${said.length + 1}`);
      return { text: said.at(-1), finish_reason: 'stop' };
    },
  };
};

const thrownBy = async (call: PromiseLike<unknown>): Promise<unknown> => {
  try {
    await call;
  } catch (error) {
    return error;
  }
  return assert.fail('it did not throw');
};

async function readAll(stream: ReadableStream<unknown>): Promise<void> {
  for await (const _ of stream);
}

test('tools, reasoning, cached tokens and fields of the provider go through the loop and back', async (t) => {
  const signed = { google: { thought_signature: 'sig' } };
  const talked = await talk(t, ({ messages }) => {
    const usage = { prompt_tokens: 10, completion_tokens: 4, cache_read_tokens: 6, reasoning_tokens: 1 };
    if ((messages as unknown[]).length > 2) return { text: 'It is 7.', finish_reason: 'stop', usage };
    const called = { name: 'add', arguments: '{"a":3,"b":4}' };
    const tool_calls = [{ id: 'c1', type: 'function', function: called, extra_content: signed }];
    return { text: '', reasoning: 'I add.', tool_calls, finish_reason: 'tool_calls', usage };
  });
  const inputSchema = jsonSchema<{ a: number; b: number }>({ type: 'object' });
  const result = await generateText({
    model: model(talked, { run: 'sum' }),
    instructions: 'Add.',
    prompt: 'What is 3 + 4?',
    tools: { add: tool({ inputSchema, execute: async ({ a, b }) => ({ sum: a + b }) }) },
    stopWhen: isStepCount(3),
    maxOutputTokens: 50,
  });
  assert.equal(result.text, 'It is 7.');
  assert.equal(result.steps[0]?.reasoningText, 'I add.');
  assert.deepEqual(
    [result.usage.inputTokens, result.usage.outputTokens, result.usage.inputTokenDetails.cacheReadTokens],
    [20, 8, 12],
  );
  assert.equal(result.finalStep.finishReason, 'stop');
  assert.deepEqual(
    result.steps.flatMap(({ warnings }) => warnings ?? []),
    [],
  );
  const [first, second] = talked.given as { messages: object[]; max_tokens: number; tools: object[] }[];
  assert.equal(first?.max_tokens, 50);
  assert.equal(first?.tools.length, 1);
  assert.deepEqual(second?.messages.slice(2), [
    {
      role: 'assistant',
      content: '',
      reasoning_content: 'I add.',
      tool_calls: [
        {
          id: 'c1',
          type: 'function',
          function: { name: 'add', arguments: '{"a":3,"b":4}' },
          extra_content: signed,
        },
      ],
    },
    { role: 'tool', tool_call_id: 'c1', content: '{"sum":7}' },
  ]);
  const id = result.finalStep.response.id;
  const job = await talked.job(id);
  assert.deepEqual([job.state, job.priority, job.tags], ['succeeded', 'interactive', { run: 'sum' }]);
});

test('an answer with a schema is an object', async (t) => {
  const talked = await talk(t, () => ({ text: '{"fox":"red"}', finish_reason: 'stop' }));
  const schema = jsonSchema<{ fox: string }>({ type: 'object', properties: { fox: { type: 'string' } } });
  const { output } = await generateText({
    model: model(talked),
    prompt: 'A fox',
    output: Output.object({ schema }),
  });
  assert.deepEqual(output, { fox: 'red' });
  const { response_format: format } = talked.given[0] as { response_format: { type: string } };
  assert.equal(format.type, 'json_schema');
});

test('the same question twice is two jobs, and both answers come back in the next start', async (t) => {
  const { model: answers, said } = counting();
  const talked = await talk(t, answers);
  const start = async (): Promise<string[]> => {
    const asked = model(talked, { run: 'twice' });
    const texts: string[] = [];
    for (let n = 0; n < 2; n++) texts.push((await generateText({ model: asked, prompt: 'Say' })).text);
    return texts;
  };
  assert.deepEqual(await start(), ['answer 1', 'answer 2']);
  assert.deepEqual(await start(), ['answer 1', 'answer 2']);
  assert.equal(said.length, 2);
});

test('without a run every call is a new job', async (t) => {
  const { model: answers } = counting();
  const talked = await talk(t, answers);
  const ids: string[] = [];
  for (const expected of ['answer 1', 'answer 2']) {
    const { text, finalStep } = await generateText({ model: model(talked), prompt: 'Say' });
    assert.equal(text, expected);
    ids.push(finalStep.response.id);
  }
  assert.notEqual(ids[0], ids[1]);
});

test('other options of the job, such as its priority, do not make it another call', async (t) => {
  const { model: answers } = counting();
  const talked = await talk(t, answers);
  for (const priority of ['interactive', 'batch'] as const) {
    const { text } = await generateText({
      model: model(talked, { run: 'r', job: { priority } }),
      prompt: 'Say',
    });
    assert.equal(text, 'answer 1');
  }
});

test('a streamed call and one that is not are the same call', async (t) => {
  const { model: answers } = counting();
  const talked = await talk(t, answers);
  const streamed = streamText({ model: model(talked, { run: 'r' }), prompt: 'Say' });
  assert.equal(await streamed.text, 'answer 1');
  assert.equal((await generateText({ model: model(talked, { run: 'r' }), prompt: 'Say' })).text, 'answer 1');
});

test('an unknown model is an error that is not repeated', async (t) => {
  const talked = await talk(t, () => 'never');
  const error = await thrownBy(
    generateText({ model: orchd({ url: talked.brain.url })('none'), prompt: 'Say' }),
  );
  assert.ok(APICallError.isInstance(error));
  assert.deepEqual([error.statusCode, error.isRetryable], [404, false]);
  assert.equal((error.data as { code: string }).code, 'MODEL_NOT_FOUND');
});

test('an error of the job says whether a repetition may help; after it the same run asks again', async (t) => {
  let retriable = false;
  let fails = true;
  const talked = await talk(t, () => {
    if (fails) throw new OrchdError('EXECUTION_FAILED', 'the provider is odd', { retriable });
    return 'well';
  });
  const asked = (maxRetries: number) =>
    generateText({ model: model(talked, { run: 'r', job: { max_tries: 1 } }), prompt: 'Say', maxRetries });
  const error = await thrownBy(asked(1));
  assert.ok(APICallError.isInstance(error));
  assert.match(error.message, /the provider is odd/);
  assert.equal(error.isRetryable, false);
  assert.equal(talked.given.length, 1);
  retriable = true;
  assert.ok(RetryError.isInstance(await thrownBy(asked(1))));
  assert.equal(talked.given.length, 3);
  fails = false;
  assert.equal((await asked(0)).text, 'well');
  assert.equal((await asked(0)).text, 'well');
  assert.equal(talked.given.length, 4);
});

test('an abort cancels the job, of a stream that nobody reads too; an aborted call can be made again', async (t) => {
  const held = new Held('first ');
  const talked = await talk(t, held.model);
  const asked = model(talked, { run: 'r' });
  const isAborted = (error: unknown): boolean => (error as Error).name === 'AbortError';

  const one = new AbortController();
  const generated = thrownBy(generateText({ model: asked, prompt: 'Say', abortSignal: one.signal }));
  await until(() => held.started.length === 1);
  one.abort();
  assert.ok(isAborted(await generated));
  await until(async () => (await talked.job(held.started[0] as string)).state === 'cancelled');

  const two = new AbortController();
  const { stream } = await asked.doStream({
    prompt: [{ role: 'user', content: [{ type: 'text', text: 'Say' }] }],
    abortSignal: two.signal,
  });
  await until(() => held.started.length === 2);
  assert.notEqual(held.started[1], held.started[0]);
  two.abort();
  await until(async () => (await talked.job(held.started[1] as string)).state === 'cancelled');
  assert.ok(isAborted(await thrownBy(readAll(stream))));

  // The same program again: what was cancelled is asked for anew.
  held.letGo();
  assert.equal((await generateText({ model: model(talked, { run: 'r' }), prompt: 'Say' })).text, 'first end');
  assert.equal(held.started.length, 3);
});

test('a reader that leaves a stream: a call of a run goes on and is found again, one without a run is cancelled', async (t) => {
  const held = new Held('first ');
  const talked = await talk(t, held.model, { disconnectGraceMs: 0 });
  const prompt = [{ role: 'user' as const, content: [{ type: 'text' as const, text: 'Say' }] }];
  const asked = model(talked, { run: 'r' });
  for (const each of [asked, model(talked)]) {
    const { stream } = await each.doStream({ prompt });
    const reader = stream.getReader();
    for (let part = await reader.read(); part.value?.type !== 'text-delta'; part = await reader.read());
    await reader.cancel();
  }
  const [ofRun = '', ofNone = ''] = held.started;
  // The second reader left after the first, so the first has been noticed too.
  await until(async () => (await talked.job(ofNone)).state === 'cancelled');
  assert.equal((await talked.job(ofRun)).state, 'running');
  held.letGo();
  const { content } = await asked.doGenerate({ prompt });
  assert.deepEqual(content, [{ type: 'text', text: 'first end' }]);
  assert.equal(held.started.length, 2);
});

test('a submit whose answer is lost is repeated with the same id: within the call, and by the next one', async (t) => {
  const { model: answers, said } = counting();
  const talked = await talk(t, answers);
  for (const [patienceMs, maxRetries] of [
    [60_000, 0],
    [-1, 1],
  ] as const) {
    let lost = 0;
    const losing: typeof fetch = async (...request) => {
      const response = await fetch(...request);
      if (request[1]?.method !== 'POST' || lost++ > 0) return response;
      throw new TypeError('fetch failed', { cause: new Error('socket hang up') });
    };
    const asked = model(talked, { run: `lost${patienceMs}`, fetch: losing, patienceMs });
    const { text } = await generateText({ model: asked, prompt: 'Say', maxRetries });
    assert.equal(text, said.at(-1));
    assert.equal(lost, 2);
  }
  assert.equal(said.length, 2);
});

test('a new attempt that says something else ends the stream with an error, and the next start has the whole answer', async (t) => {
  let attempts = 0;
  const isSeen = Promise.withResolvers<void>();
  const changing: Model = async (_payload, { emit }) => {
    emit(attempts++ === 0 ? 'one ' : 'two ');
    if (attempts > 1) return { text: 'two words', finish_reason: 'stop' };
    await isSeen.promise;
    throw new OrchdError('EXECUTION_FAILED', 'lost', { retriable: true });
  };
  const talked = await talk(t, changing, { config: 'orchestrator: {retry: {base_delay_ms: 1}}' });
  const errors: unknown[] = [];
  const result = streamText({
    model: model(talked, { run: 'r' }),
    prompt: 'Say',
    onError: ({ error }) => void errors.push(error),
  });
  for await (const text of result.textStream) {
    assert.equal(text, 'one ');
    isSeen.resolve();
  }
  assert.match(String(errors[0]), /contradicts/);
  assert.equal((await generateText({ model: model(talked, { run: 'r' }), prompt: 'Say' })).text, 'two words');
  assert.equal(attempts, 2);
});

test('a run that is no id is refused before anything is asked', async (t) => {
  assert.throws(() => orchd({ run: 'a b' }), /"run" must have/);
  const talked = await talk(t, () => 'never');
  const providerOptions = { orchd: { run: 'a/b' } };
  await assert.rejects(
    generateText({ model: model(talked), prompt: 'Say', providerOptions }),
    /"run" must have/,
  );
  assert.equal(talked.given.length, 0);
});
