/** A real server with agents, and a model behind an OpenAI-compatible API whose answers are written piece by piece. */
import type { ServerResponse } from 'node:http';
import type { TestContext } from 'node:test';
import type { ModelServer } from '../fakes/model-server.ts';
import { type Running, start } from './cli-process.ts';
import { modelServer, serveUpstreams, type Upstreamed, upstreamFolder } from './upstream-kit.ts';

const AGENTS = [
  {
    name: 'helper',
    description: 'Helps.',
    model: 'm',
    tools: ['current_time', 'read_file'],
    files: { root: '.' },
  },
  { name: 'lost', model: 'no-such-model' },
  { name: 'careful', model: 'm', tools: ['current_time'], approve: ['current_time'] },
];

export interface Heard {
  readonly messages: readonly { readonly role: string; readonly content: string }[];
}

/** Writes an answer piece by piece. */
export class Reply {
  readonly #response: ServerResponse;

  constructor(response: ServerResponse) {
    this.#response = response;
    response.writeHead(200, { 'content-type': 'text/event-stream' });
  }

  #delta(delta: object, finish: string | null = null): void {
    this.#response.write(
      `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`,
    );
  }

  say(content: string): this {
    this.#delta({ content });
    return this;
  }

  call(name: string, args: object): void {
    const call = {
      index: 0,
      id: 'c1',
      type: 'function',
      function: { name, arguments: JSON.stringify(args) },
    };
    this.#delta({ tool_calls: [call] });
    this.end('tool_calls');
  }

  end(finish = 'stop'): void {
    this.#delta({}, finish);
    const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 };
    this.#response.end(`data: ${JSON.stringify({ choices: [], usage })}\n\ndata: [DONE]\n\n`);
  }
}

export type Script = (turn: number, reply: Reply, heard: Heard) => void;

export interface Site {
  readonly brain: Upstreamed;
  readonly model: ModelServer;
  again(): Promise<void>;
  run(...words: string[]): Running;
}

/** `script` writes the answers of the model; `turn` counts its answers in the conversation. */
export async function site(t: TestContext, script: Script, slots = 4): Promise<Site> {
  const model = await modelServer(t, ['m']);
  model.paths.set('/v1/chat/completions', (_request, response, body) => {
    const heard = JSON.parse(body) as Heard;
    script(heard.messages.filter(({ role }) => role === 'assistant').length, new Reply(response), heard);
  });
  const data = upstreamFolder(t);
  const ups = [{ url: model.url, name: 'up', slots }];
  const settings = { agents: AGENTS };
  const brain = await serveUpstreams(t, ups, { data, settings });
  await until(async () => (await brain.api.models()).includes('m'));
  const env = { ORCHD_URL: brain.url };
  return {
    brain,
    model,
    again: async () => {
      await brain.kill();
      await serveUpstreams(t, ups, { data, settings, port: brain.port });
    },
    run: (...words) => start(['run', ...words], { env }),
  };
}

export async function until(holds: () => Promise<boolean>): Promise<void> {
  while (!(await holds())) await new Promise((resolve) => setTimeout(resolve, 20));
}
