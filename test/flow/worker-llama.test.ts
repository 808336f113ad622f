/** A worker with a real engine and a tiny model: one process for all of it. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { usableCores } from '../../src/kit/process/cpu-limit.ts';
import { writeTinyModel } from '../fakes/gguf.ts';
import { start } from './cli-process.ts';
import { startWorker, type WorkerProcess } from './worker-kit.ts';

const CONTEXT = 32_768;
/** Threads that wait for each other are slow where others use the processor too. */
const ALONE = ['--gpu', 'off', '--threads', '1'];
const folder = mkdtempSync(join(tmpdir(), 'orchd-llama-'));
const file = join(folder, 'tiny.gguf');
const QUESTION = 'And then?';
const tool = (name: string) => ({
  type: 'function',
  function: {
    name,
    parameters: {
      type: 'object',
      properties: { unit: { enum: ['metre', 'mile'] }, far: { type: 'boolean' } },
    },
  },
});

describe('a worker with a model', () => {
  let worker: WorkerProcess;
  const endings: (() => Promise<void>)[] = [];
  let count = 0;
  const ask = async (body: object) => {
    const events = await (await worker.line.execute(`llama-${++count}:1`, body)).rest();
    const last = events.at(-1);
    assert.ok(last);
    return { events, last, result: last.data.result };
  };

  before(async () => {
    writeTinyModel(file, { contextLength: CONTEXT });
    const words = ['--engine', 'llama', '--model', file, ...ALONE, '--slots', '2', '--id', 'llama'];
    worker = await startWorker({ after: (run: () => Promise<void>) => endings.push(run) }, words);
    const early = (await worker.line.health()).body;
    assert.equal(early.status, 'starting', 'it listens before it has loaded');
    const refused = await worker.line.execute('early:1', { prompt: 'Hello' });
    assert.equal(refused.status, 503);
    await worker.saw('err', /^ready: /m);
  });
  after(async () => {
    for (const end of endings) await end();
    rmSync(folder, { recursive: true, force: true });
  });

  test('its health says what it is', async () => {
    const { body } = await worker.line.health();
    assert.deepEqual(
      [body.status, body.model, body.slots, body.context_length, body.worker_id],
      ['ready', file, 2, CONTEXT, 'llama'],
    );
    assert.ok(body.vram_bytes > 100_000);
  });

  test('a conversation is answered by the template of the model, and the seed decides the answer', async () => {
    const body = { messages: [{ role: 'user', content: 'Hello' }], temperature: 1, max_tokens: 40 };
    const [first, same, other] = [
      await ask({ ...body, seed: 7 }),
      await ask({ ...body, seed: 7 }),
      await ask({ ...body, seed: 8 }),
    ];
    assert.match(first.result.text, /^[a-z]+( [a-z"]+)+/);
    assert.equal(same.result.text, first.result.text);
    assert.notEqual(other.result.text, first.result.text);
    const pieces = first.events.flatMap(({ event, data }) => (event === 'token' ? [data.t] : []));
    assert.equal(pieces.join(''), first.result.text);
    // `<|user|>`, the text, `<|assistant|>` and three ends of lines: every character is a token of this model.
    assert.equal(first.result.usage.prompt_tokens, '<|user|>\nHello\n<|assistant|>\n'.length);
    assert.ok(first.result.usage.completion_tokens > 0);
  });

  test('a prompt is continued to its length or to a stop', async () => {
    const body = { prompt: 'Hello', temperature: 0 };
    const long = await ask({ ...body, max_tokens: 12 });
    assert.equal(long.result.finish_reason, 'length');
    const { prompt_tokens, completion_tokens } = long.result.usage;
    assert.deepEqual([prompt_tokens, completion_tokens], [6, 12]);
    const [first = '', second = ''] = long.result.text.trim().split(' ');
    const cut = await ask({ ...body, max_tokens: 12, stop: [` ${second}`] });
    assert.deepEqual(
      [cut.result.text, cut.result.finish_reason],
      [first === second ? '' : ` ${first}`, 'stop'],
    );
  });

  test('a session goes on where it was: of its next turn only what is new is evaluated', async () => {
    const said = [{ role: 'user', content: 'Hello' }];
    const turn = async (session_id: string) =>
      (await ask({ messages: said, session_id, temperature: 0, max_tokens: 20 })).result;
    let answered = 0;
    for (let n = 1; n <= 4; n++) {
      const { text, usage } = await turn('talk');
      const evaluated = usage.prompt_tokens - (usage.cache_read_tokens ?? 0);
      // The last answer, whose words are other tokens in a prompt, the question, and the marks of the template.
      const added = answered + QUESTION.length + 40;
      if (n > 1)
        assert.ok(evaluated <= added, `${evaluated} of ${usage.prompt_tokens} tokens, at most ${added}`);
      answered = text.length;
      said.push({ role: 'assistant', content: text }, { role: 'user', content: QUESTION });
    }
    const { usage } = await turn('another');
    const evaluated = usage.prompt_tokens - (usage.cache_read_tokens ?? 0);
    assert.ok(evaluated > 0.8 * usage.prompt_tokens, 'another session has a sequence of its own');
  });

  test('a text ends by itself', async () => {
    const { result } = await ask({ prompt: 'Hello', temperature: 1, seed: 1, max_tokens: 2000 });
    assert.equal(result.finish_reason, 'stop');
  });

  test('what does not fit into the context is refused before anything is decoded', async () => {
    const long = await ask({ prompt: 'x'.repeat(CONTEXT), max_tokens: 1 });
    assert.deepEqual([long.last.event, long.last.data.code], ['error', 'CONTEXT_TOO_LONG']);
    const wanted = await ask({ prompt: 'Hello', max_tokens: CONTEXT });
    assert.equal(wanted.last.data.code, 'CONTEXT_TOO_LONG');
    assert.ok(wanted.events.every(({ event }) => event !== 'token'));
    assert.equal((await ask({ input: 'x'.repeat(3000) })).last.data.code, 'CONTEXT_TOO_LONG');
  });

  test('an answer has the form of its schema', async () => {
    const schema = {
      type: 'object',
      properties: { size: { enum: ['small', 'large'] }, name: { type: 'string', maxLength: 8 } },
    };
    for (const work of [{ prompt: 'Hello' }, { messages: [{ role: 'user', content: 'Hello' }] }]) {
      const { result } = await ask({
        ...work,
        seed: 3,
        max_tokens: 200,
        response_format: { type: 'json_schema', json_schema: { name: 'thing', schema } },
      });
      const answer = JSON.parse(result.text);
      assert.deepEqual(Object.keys(answer), ['size', 'name']);
      assert.ok(['small', 'large'].includes(answer.size));
    }
    const { last } = await ask({
      prompt: 'Hello',
      response_format: { type: 'json_schema', json_schema: { schema: { type: 'string', maxLength: 1e9 } } },
    });
    assert.equal(last.data.code, 'UNSUPPORTED', 'a grammar that would fill the memory is not made');
  });

  test('an object is an object', async () => {
    const { result } = await ask({
      messages: [{ role: 'user', content: 'Hello' }],
      response_format: { type: 'json_object' },
      seed: 2,
      temperature: 2,
      max_tokens: 2000,
    });
    if (result.finish_reason === 'stop') assert.equal(typeof JSON.parse(result.text), 'object');
    else assert.match(result.text, /^\{/);
  });

  test('a call that must be made is made, streamed as OpenAI would', async () => {
    const body = {
      messages: [{ role: 'user', content: 'How far?' }],
      tools: [tool('measure'), tool('look')],
      seed: 1,
    };
    const any = await ask({ ...body, tool_choice: 'required', max_tokens: 300 });
    assert.equal(any.result.finish_reason, 'tool_calls');
    const [call] = any.result.tool_calls;
    assert.ok(['measure', 'look'].includes(call.function.name));
    assert.ok(['metre', 'mile'].includes(JSON.parse(call.function.arguments).unit));
    const deltas = any.events.flatMap(({ event, data }) => (event === 'token' ? [data] : []));
    assert.deepEqual(deltas, [{ t: '', i: 0, delta: { tool_calls: [{ index: 0, ...call }] } }]);
    const named = await ask({ ...body, tool_choice: { type: 'function', function: { name: 'look' } } });
    assert.equal(named.result.tool_calls[0].function.name, 'look');
    const short = await ask({ ...body, tool_choice: 'required', max_tokens: 3 });
    assert.equal(short.last.data.code, 'EXECUTION_FAILED');
  });

  test('a call that may be made is left to the model, and results of earlier ones are read', async () => {
    const made = { id: 'c1', type: 'function', function: { name: 'look', arguments: '{"unit":"mile"}' } };
    const { last, result } = await ask({
      messages: [
        { role: 'user', content: 'How far?' },
        { role: 'assistant', content: null, tool_calls: [made] },
        { role: 'tool', tool_call_id: 'c1', content: '3 miles' },
      ],
      tools: [tool('look')],
      seed: 1,
      max_tokens: 30,
    });
    assert.equal(last.event, 'end');
    assert.ok(result.text.length > 0 || result.tool_calls.length > 0);
  });

  test('texts become rows of numbers', async () => {
    const { result } = await ask({ input: ['Hello', 'Hello', 'old stone'] });
    assert.deepEqual(result.embeddings[0], result.embeddings[1]);
    assert.equal(result.embeddings.length, 3);
    assert.equal(result.embeddings[0].length, 32);
    assert.equal(result.usage.prompt_tokens, 19);
  });

  test('two run at once, a third is turned away, and a cancel ends a decode', async () => {
    const endless = { prompt: 'Hello', temperature: 0 };
    const first = await worker.line.execute('endless-1:1', endless);
    const second = await worker.line.execute('endless-2:1', endless);
    await Promise.all([first.until('token'), second.until('token')]);
    assert.equal((await worker.line.execute('endless-3:1', endless)).status, 503);
    const begun = performance.now();
    for (const token of ['endless-1:1', 'endless-2:1']) {
      assert.equal((await worker.line.cancel(token)).body.is, 'stopping');
    }
    for (const stream of [first, second]) assert.equal((await stream.until('error')).data.code, 'CANCELLED');
    assert.ok(performance.now() - begun < 5000);
    assert.equal((await worker.line.health()).body.active, 0);
  });

  test('a cancel ends an execution that still reads its prompt', async () => {
    const stream = await worker.line.execute('reading:1', {
      prompt: 'x'.repeat(CONTEXT - 10),
      max_tokens: 5,
    });
    assert.equal((await stream.next()).event, 'started');
    const begun = performance.now();
    assert.equal((await worker.line.cancel('reading:1')).body.is, 'stopping');
    const rest = await stream.rest();
    assert.ok(performance.now() - begun < 5000);
    assert.deepEqual(
      rest.map(({ event, data }) => [event, data.code]),
      [['error', 'CANCELLED']],
      'nothing was decoded',
    );
    const { result } = await ask({ prompt: 'Hello', temperature: 0, max_tokens: 12 });
    assert.equal(result.finish_reason, 'length', 'its sequence is as good as before');
  });

  test('a session finds its prompt read already', async () => {
    const messages = [{ role: 'user', content: 'y'.repeat(12_000) }];
    const body = { session_id: 's1', messages, max_tokens: 3, temperature: 0 };
    const { last: first } = await ask(body);
    const { last: other } = await ask({ prompt: 'Hello', max_tokens: 3 });
    const { last: again } = await ask(body);
    assert.equal(other.event, 'end');
    assert.equal(again.data.result.text, first.data.result.text);
    assert.ok(
      again.data.first_token_ms < first.data.first_token_ms / 2,
      `${again.data.first_token_ms} ms after ${first.data.first_token_ms} ms`,
    );
  });
});

test('a model is the same bytes every time, and another salt is another model', () => {
  const place = mkdtempSync(join(tmpdir(), 'orchd-gguf-'));
  const hashOf = (salt: string): string => {
    writeTinyModel(join(place, 'm.gguf'), { salt });
    return createHash('sha256')
      .update(readFileSync(join(place, 'm.gguf')))
      .digest('hex');
  };
  assert.equal(hashOf('a'), hashOf('a'));
  assert.notEqual(hashOf('a'), hashOf('b'));
  rmSync(place, { recursive: true });
});

test('a worker that needs a GPU fails where its engine finds none, before it loads the model', async () => {
  // The file does not exist: it would fail for another reason if it were loaded.
  const ran = await start(['worker', '--engine', 'llama', '--gpu', 'required', '--model', 'none.gguf']).ended;
  assert.equal(ran.code, 1);
  assert.match(ran.err, /on the processor instead of the GPU: node-llama-cpp finds no driver/);
  assert.match(ran.out, /"error_code":"WORKER_START_FAILED"/);
});

test('without --threads a core is left for others', async (t) => {
  const place = mkdtempSync(join(tmpdir(), 'orchd-gguf-'));
  t.after(() => rmSync(place, { recursive: true }));
  writeTinyModel(join(place, 'm.gguf'), {});
  for (const [words, threads] of [
    [[], Math.max(1, Math.floor(usableCores() - 1))],
    [['--threads', '2'], 2],
  ] as const) {
    const model = ['--engine', 'llama', '--gpu', 'off', '--model', join(place, 'm.gguf')];
    const worker = await startWorker(t, [...model, ...words]);
    const [, said] = /, (\d+) CPU threads/.exec(await worker.saw('err', /^ready: .*$/m)) ?? [];
    assert.ok(Number(said) >= 1 && Number(said) <= threads, `${said} threads`);
    if (words.length > 0) assert.equal(Number(said), threads);
  }
});

test('a file that is no model is exit 1, with a sentence and a code in the log', async (t) => {
  const place = mkdtempSync(join(tmpdir(), 'orchd-gguf-'));
  t.after(() => rmSync(place, { recursive: true }));
  writeFileSync(join(place, 'bad.gguf'), 'GGUF no');
  const words = ['worker', '--engine', 'llama', ...ALONE, '--model'];
  for (const [name, code, says] of [
    ['bad.gguf', 'WORKER_START_FAILED', 'the file is not a model that can be loaded'],
    ['none.gguf', 'MODEL_NOT_FOUND', 'there is no such model file'],
  ] as const) {
    const path = join(place, name);
    const ran = await start([...words, path]).ended;
    assert.equal(ran.code, 1);
    assert.match(ran.out, new RegExp(`"error_code":"${code}"`));
    assert.ok(ran.err.includes(`orchd worker: ${path}: ${says}\n`), ran.err);
  }
});
