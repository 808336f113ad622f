/**
 * An OpenAI-compatible server that misbehaves on purpose: what it does is named by what it is asked.
 * `node openai-upstream.ts PORT` runs it on its own.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface Heard {
  readonly path: string;
  readonly key: string | undefined;
  readonly traceparent: string | undefined;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into what came
  readonly body: any;
  /** The one who asked has gone before the answer was whole. */
  left: boolean;
}

type Behave = (response: ServerResponse, heard: Heard) => void;

const data = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`;
const piece = (content: string): string => data({ choices: [{ index: 0, delta: { content } }] });
const finish = (reason: string): string =>
  data({ choices: [{ index: 0, delta: {}, finish_reason: reason }] });
const DONE = 'data: [DONE]\n\n';

const stream = (response: ServerResponse): ServerResponse =>
  response.writeHead(200, { 'content-type': 'text/event-stream' });
const refuse =
  (status: number, message: string, headers: Record<string, string> = {}): Behave =>
  (response) => {
    response.writeHead(status, { 'content-type': 'application/json', ...headers });
    response.end(JSON.stringify({ error: { message, code: 'some_code' } }));
  };

/** Writes for as long as it is let. */
function flood(response: ServerResponse, text: string): void {
  const more = (): void => {
    while (!response.destroyed && response.write(text));
  };
  response.on('drain', more);
  more();
}

const call = (delta: object): string => data({ choices: [{ index: 0, delta: { tool_calls: [delta] } }] });

const BEHAVIOURS: Readonly<Record<string, Behave>> = {
  tools(response) {
    stream(response);
    response.write(call({ index: 0, id: 'c1', type: 'function', function: { name: 'look', arguments: '' } }));
    response.write(call({ index: 0, function: { arguments: '{"far":' } }));
    response.write(call({ index: 0, function: { arguments: 'true}' } }));
    response.end(finish('tool_calls') + DONE);
  },
  garbage: (response) => stream(response).end('data: {"choices": [\n\n'),
  'wrong shape': (response) => stream(response).end(data({ hello: 'world' }) + DONE),
  'endless line'(response) {
    stream(response).write('data: ');
    flood(response, 'x'.repeat(65_536));
  },
  'endless answer': (response) => flood(stream(response), piece('x'.repeat(65_536))),
  'no end': (response) => stream(response).end(piece('half')),
  cut(response) {
    stream(response).write(piece('half'), () => response.destroy());
  },
  hang: (response) => stream(response).write(piece('first ')),
  silence: () => undefined,
  'open after the end': (response) => stream(response).write(piece('all') + finish('stop') + DONE),
  'no stream': (response) => response.writeHead(200, { 'content-type': 'application/json' }).end('{}'),
  'error inside'(response) {
    stream(response).end(piece('half') + data({ error: { message: 'out of memory', code: 'oom' } }));
  },
  redirect: (response) => response.writeHead(302, { location: '/elsewhere' }).end(),
  limited: refuse(429, 'slow down', { 'retry-after': '7' }),
  loading: refuse(503, 'loading'),
  broken: refuse(500, 'oops'),
  'wrong key': refuse(401, 'who are you'),
  'bad request': refuse(400, 'temperature is odd'),
  'too long': refuse(400, "This model's maximum context length is 8 tokens"),
};

export class FakeUpstream {
  readonly heard: Heard[] = [];
  readonly #server: Server = createServer((request, response) => void this.#answer(request, response));

  async listen(port = 0): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(port, '127.0.0.1', resolve));
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = request.url ?? '';
    let text = '';
    for await (const part of request) text += part;
    if (path === '/v1/models') {
      response.end(JSON.stringify({ data: [{ id: 'up', max_model_len: 4096 }] }));
      return;
    }
    if (request.method !== 'POST') {
      response.writeHead(404).end();
      return;
    }
    const { authorization: key, traceparent } = request.headers;
    const heard: Heard = {
      path,
      key,
      traceparent: traceparent as string | undefined,
      body: JSON.parse(text),
      left: false,
    };
    this.heard.push(heard);
    response.on('close', () => {
      heard.left = !response.writableFinished;
    });
    const wish = heard.body.prompt ?? heard.body.messages?.at(-1)?.content ?? '';
    if (path === '/v1/embeddings') embed(response, heard);
    else (BEHAVIOURS[wish] ?? echo)(response, heard);
  }
}

function echo(response: ServerResponse, { path, body }: Heard): void {
  const words: string[] = `You said: ${body.prompt ?? body.messages.at(-1).content}`.match(/\S+\s*/g) ?? [];
  stream(response);
  for (const word of words) {
    response.write(path === '/v1/completions' ? data({ choices: [{ index: 0, text: word }] }) : piece(word));
  }
  const usage = { prompt_tokens: 3, completion_tokens: words.length, total_tokens: 3 + words.length };
  response.end(finish('stop') + data({ choices: [], usage }) + DONE);
}

function embed(response: ServerResponse, { body }: Heard): void {
  const texts: string[] = [body.input].flat();
  const rows = texts.map((text, index) => ({ index, embedding: [text.length, 0.5] })).reverse();
  const wrong = texts[0] === 'too few' ? rows.slice(1) : rows;
  response.writeHead(200, { 'content-type': 'application/json' });
  response.end(JSON.stringify({ data: wrong, usage: { prompt_tokens: 4, total_tokens: 4 } }));
}

if (process.argv[1] === import.meta.filename) await new FakeUpstream().listen(Number(process.argv[2]));
