/** OpenAI's own client in front of `orchd up --model`: a real server, a pool, a worker and a tiny model. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import OpenAI from 'openai';
import { Compile } from 'typebox/compile';
import type { JobView } from '../../src/model/http/jobs.ts';
import { writeTinyModel } from '../fakes/gguf.ts';
import { orchd, type Running, start, until } from './cli-process.ts';
import { within } from './flow-kit.ts';
import { Line } from './worker-kit.ts';

const CONTEXT = 32_768;
/** A single slot, so that a second request waits. A single thread: several wait for each other on a busy machine. */
const WORKER_ARGS = `--gpu off --threads 1 --slots 1 --context ${CONTEXT}`;
const PATIENCE_MS = 15_000;

const messages = [{ role: 'user' as const, content: 'Hello' }];
const CHAT = { model: 'tiny', messages, seed: 7, temperature: 1, max_tokens: 40 };
/** The most likely word after each, and the end is never that: it goes on for as long as its context. */
const ENDLESS = { model: 'tiny', messages, temperature: 0, stream: true as const };
/** `<|user|>`, the text, `<|assistant|>` and three ends of lines: every character is a token of this model. */
const PROMPT_TOKENS = '<|user|>\nHello\n<|assistant|>\n'.length;

/** Without what was cached, which depends on the requests before. */
function countedIn(usage: OpenAI.CompletionUsage | null | undefined): object {
  const { prompt_tokens_details: _, ...counts } = usage ?? {};
  return counts;
}

const tool = (name: string) => ({
  type: 'function' as const,
  function: {
    name,
    parameters: {
      type: 'object',
      properties: { unit: { enum: ['metre', 'mile'] }, far: { type: 'boolean' } },
    },
  },
});

describe('a model behind orchd', () => {
  const folder = mkdtempSync(join(tmpdir(), 'orchd-front-'));
  const data = join(folder, 'data');
  let server: Running;
  let url: string;
  let client: OpenAI;

  before(async () => {
    mkdirSync(join(folder, 'blobs'));
    writeTinyModel(join(folder, 'blobs', 'no-ending'), { contextLength: CONTEXT });
    // As the cache of the hub keeps it: the name is a link to a file without one.
    symlinkSync(join('blobs', 'no-ending'), join(folder, 'tiny.gguf'));
    const words = [
      'up',
      '--port',
      '0',
      '--data',
      data,
      '--model',
      join(folder, 'tiny.gguf'),
      '--context',
      String(CONTEXT),
    ];
    server = start(words, { env: { ORCHD_WORKER_ARGS: WORKER_ARGS } });
    url = /listens on (\S+)/.exec(await server.saw('err', /press Ctrl-C/))?.[1] as string;
    client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'any', maxRetries: 0 });
    // The first request brings the worker up.
    await within(client.completions.create({ model: 'tiny', prompt: 'x', max_tokens: 1 }), PATIENCE_MS);
  });
  after(async () => {
    server?.child.kill('SIGTERM');
    assert.equal((await server?.ended)?.code, 0);
    rmSync(folder, { recursive: true, force: true });
  });

  /** The brain's own line to the worker: its secret and its epoch are on disk. */
  const line = (): Line => {
    const read = (...path: string[]) => JSON.parse(readFileSync(join(data, 'pool', ...path), 'utf8'));
    const [file = ''] = readdirSync(join(data, 'pool', 'workers'));
    const { secret, ready } = read('workers', file);
    const [found] = Object.entries<{ epoch: number }>(read('epochs.json'));
    assert.ok(found);
    const [owner, { epoch }] = found;
    return new Line(ready.uri, { bearer: secret, owner, epoch });
  };
  const running = async (): Promise<string[]> => {
    const { body } = await line().list();
    return body.executions
      .filter(({ state }: { state: string }) => state === 'running')
      .map(({ token }: { token: string }) => token);
  };
  const job = async (id: string): Promise<JobView> => (await fetch(`${url}/v2/tasks/${id}`)).json() as never;
  const idOf = (response: Response): string => response.headers.get('x-orchd-job-id') as string;
  const ends = (id: string): Promise<void> =>
    within(
      until(async () => (await job(id)).state === 'cancelled' && (await running()).length === 0),
      PATIENCE_MS,
    );
  const isFree = async (): Promise<void> => {
    const { choices } = await within(client.chat.completions.create({ ...CHAT, max_tokens: 1 }), PATIENCE_MS);
    assert.equal(choices.length, 1);
    assert.equal((await line().health()).body.active, 0);
  };

  test('its models are listed and shown', async () => {
    const ids: string[] = [];
    for await (const { id } of client.models.list()) ids.push(id);
    assert.deepEqual(ids.sort(), ['demo', 'tiny']);
    const { id, object, owned_by } = await client.models.retrieve('tiny');
    assert.deepEqual([id, object, owned_by], ['tiny', 'model', 'orchd']);
  });

  test('a chat is the same whole and streamed, by its seed, with what it really used', async () => {
    const whole = await client.chat.completions.create(CHAT);
    const [choice] = whole.choices;
    const text = choice?.message.content as string;
    assert.match(text, /^[a-z]+( [a-z"]+)+/);
    assert.equal(whole.usage?.prompt_tokens, PROMPT_TOKENS);
    let streamed = '';
    let last: OpenAI.ChatCompletionChunk | undefined;
    let finish: string | null | undefined;
    const stream = await client.chat.completions.create({
      ...CHAT,
      stream: true,
      stream_options: { include_usage: true },
    });
    for await (const chunk of stream) {
      streamed += chunk.choices[0]?.delta.content ?? '';
      finish = chunk.choices[0]?.finish_reason ?? finish;
      last = chunk;
    }
    assert.equal(streamed, text);
    assert.equal(finish, choice?.finish_reason);
    assert.deepEqual(countedIn(last?.usage), countedIn(whole.usage));
    assert.equal(
      last?.usage?.prompt_tokens_details?.cached_tokens,
      PROMPT_TOKENS - 1,
      'it has just heard it',
    );
    const other = await client.chat.completions.create({ ...CHAT, seed: 8 });
    assert.notEqual(other.choices[0]?.message.content, text);
    const short = await client.chat.completions.create({
      ...ENDLESS,
      stream: false,
      max_completion_tokens: 5,
    });
    assert.equal(short.choices[0]?.finish_reason, 'length');
    assert.deepEqual(countedIn(short.usage), {
      prompt_tokens: PROMPT_TOKENS,
      completion_tokens: 5,
      total_tokens: PROMPT_TOKENS + 5,
    });
  });

  test('a prompt is continued, whole and streamed', async () => {
    const body = { model: 'tiny', prompt: 'Hello', temperature: 0, max_tokens: 12 };
    const whole = await client.completions.create(body);
    assert.equal(whole.choices[0]?.finish_reason, 'length');
    assert.deepEqual(countedIn(whole.usage), { prompt_tokens: 6, completion_tokens: 12, total_tokens: 18 });
    const pieces: string[] = [];
    for await (const { choices } of await client.completions.create({ ...body, stream: true }))
      pieces.push(choices[0]?.text ?? '');
    assert.equal(pieces.join(''), whole.choices[0]?.text);
    assert.ok(pieces.length > 5);
  });

  test('texts become rows of numbers, as numbers and as bytes', async () => {
    const body = { model: 'tiny', input: ['Hello', 'Hello', 'old stone'] };
    const floats = await client.embeddings.create({ ...body, encoding_format: 'float' });
    const rows = floats.data.map(({ embedding }) => embedding);
    assert.deepEqual(rows[0], rows[1]);
    assert.deepEqual([rows.length, rows[0]?.length], [3, 32]);
    assert.deepEqual(floats.usage, { prompt_tokens: 19, total_tokens: 19 });
    // The client asks for bytes by itself, and makes numbers of them.
    const bytes = await client.embeddings.create(body);
    assert.deepEqual(
      bytes.data.map(({ embedding }) => embedding),
      rows.map((row) => [...Float32Array.from(row)]),
    );
  });

  test('a call that must be made is made, whole and streamed', async () => {
    const body = { ...CHAT, max_tokens: 300, tools: [tool('measure'), tool('look')] };
    const named = { type: 'function' as const, function: { name: 'look' } };
    for (const tool_choice of ['required', named] as const) {
      const { choices } = await client.chat.completions.create({ ...body, tool_choice });
      const [call] = choices[0]?.message.tool_calls ?? [];
      assert.ok(call?.type === 'function');
      assert.ok((tool_choice === named ? ['look'] : ['measure', 'look']).includes(call.function.name));
      assert.ok(['metre', 'mile'].includes(JSON.parse(call.function.arguments).unit));
      assert.equal(choices[0]?.finish_reason, 'tool_calls');
      const runner = client.chat.completions.stream({ ...body, tool_choice });
      const final = await runner.finalChatCompletion();
      const [streamed] = final.choices[0]?.message.tool_calls ?? [];
      assert.ok(streamed?.type === 'function');
      assert.equal(streamed.function.name, call.function.name);
      assert.equal(streamed.function.arguments, call.function.arguments);
      assert.equal(final.choices[0]?.finish_reason, 'tool_calls');
    }
  });

  test('an answer has the form of its schema', async () => {
    const schema = {
      type: 'object',
      properties: {
        size: { enum: ['small', 'large'] },
        name: { type: 'string', maxLength: 8 },
        parts: { type: 'array', items: { type: 'boolean' }, maxItems: 3 },
      },
      required: ['size', 'name', 'parts'],
      additionalProperties: false,
    };
    const isValid = Compile(schema as never);
    for (const seed of [1, 2, 3]) {
      const { choices } = await client.chat.completions.create({
        ...CHAT,
        seed,
        max_tokens: 300,
        response_format: { type: 'json_schema', json_schema: { name: 'thing', schema } },
      });
      const text = choices[0]?.message.content as string;
      assert.equal(choices[0]?.finish_reason, 'stop');
      assert.ok(isValid.Check(JSON.parse(text)), text);
    }
  });

  test('what does not fit into the context is refused, with a code', async () => {
    for (const prompt of ['x'.repeat(CONTEXT), 'xy'.repeat(CONTEXT)]) {
      const body = { prompt, max_tokens: 1 };
      const error = await client.completions.create({ model: 'tiny', ...body }).then(
        () => assert.fail('it was answered'),
        (thrown: InstanceType<typeof OpenAI.APIError>) => thrown,
      );
      assert.deepEqual([error.status, error.code], [422, 'CONTEXT_TOO_LONG']);
      assert.match(error.message, /the context has 32768/);
      assert.ok(error.headers?.get('x-orchd-job-id'), 'and which job it was');
    }
    const refused = client.completions.create({ model: 'tiny', prompt: 'Hello', max_tokens: CONTEXT });
    await assert.rejects(
      refused,
      { status: 422, code: 'ADMISSION_REJECT' },
      'what needs no engine to be seen',
    );
  });

  test('who leaves in the middle of an answer ends the decoding', async () => {
    const { data: stream, response } = await client.chat.completions.create(ENDLESS).withResponse();
    let pieces = 0;
    for await (const _ of stream) if (++pieces > 3) break;
    await ends(idOf(response));
    await isFree();
  });

  test('who leaves while waiting is answered by nobody, streamed or not, and holds up nobody', async () => {
    const gone = new AbortController();
    const first = await client.chat.completions.create(ENDLESS).withResponse();
    await within(until(async () => (await running()).length === 1));
    const waits = await client.chat.completions.create(ENDLESS).withResponse();
    const whole = client.chat.completions
      .create({ ...ENDLESS, stream: false }, { signal: gone.signal })
      .catch((error: unknown) => error);
    const listed = async (): Promise<JobView[]> =>
      ((await (await fetch(`${url}/v2/tasks?state=queued`)).json()) as { jobs: JobView[] }).jobs;
    await within(until(async () => (await listed()).length === 2));
    const queued = await listed();
    gone.abort();
    waits.data.controller.abort();
    assert.ok((await whole) instanceof OpenAI.APIUserAbortError);
    for (const { job_id } of queued)
      await within(
        until(async () => (await job(job_id)).state === 'cancelled'),
        PATIENCE_MS,
      );
    for (const { job_id } of queued) assert.deepEqual((await job(job_id)).attempts, [], 'it never began');
    assert.equal((await job(idOf(first.response))).state, 'running', 'nobody else was ended');
    first.data.controller.abort();
    await ends(idOf(first.response));
    await isFree();
  });

  test('who leaves before the first word, while the prompt is read, ends that too', async () => {
    const prompt = 'x'.repeat(CONTEXT - 100);
    const { data: stream, response } = await client.completions
      .create({ model: 'tiny', prompt, max_tokens: 50, stream: true })
      .withResponse();
    const id = idOf(response);
    await within(until(async () => (await running()).length === 1));
    assert.equal((await line().state(`${id}:1`)).body.state, 'running');
    stream.controller.abort();
    await ends(id);
    await isFree();
  });

  test('the command line asks the same model', async () => {
    const { code, out } = await orchd(['submit', '--model', 'tiny', '--follow', '--url', url, 'Hello']);
    assert.equal(code, 0);
    assert.match(out, /^[a-z" ]+\n$/);
  });
});
