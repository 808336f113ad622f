/** A paid provider that keeps a ledger, a brain in front of it, and programs that call it and are killed. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { TestContext } from 'node:test';
import type { Line, Plan } from './ai-sdk-main.ts';
import { within } from './flow-kit.ts';
import { modelServer, serveUpstreams, type Upstreamed } from './upstream-kit.ts';

export interface Delta {
  readonly content?: string;
  readonly reasoning_content?: string;
  readonly tool_calls?: readonly object[];
}

/** What the provider says in one call: pieces, and the reason of its end. */
export interface Said {
  readonly deltas: readonly Delta[];
  readonly finish?: string;
}

export const call = (index: number, id: string, name: string, args: object): object => ({
  index,
  id,
  type: 'function',
  function: { name, arguments: JSON.stringify(args) },
});

/** Two calls of a tool at once, then one, then the answer. */
export const FOXES: readonly Said[] = [
  {
    deltas: [
      { tool_calls: [call(0, 'c1', 'look', { place: 'the wood' })] },
      { tool_calls: [call(1, 'c2', 'look', { place: 'the town' })] },
    ],
    finish: 'tool_calls',
  },
  { deltas: [{ tool_calls: [call(0, 'c3', 'look', { place: 'the zoo' })] }], finish: 'tool_calls' },
  { deltas: [{ content: 'Foxes ' }, { content: 'are ' }, { content: 'everywhere.' }] },
];
export const ANSWER = 'Foxes are everywhere.';

const USAGE = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 };

// biome-ignore lint/suspicious/noExplicitAny: tests look into what came
type Body = any;

/** A provider whose answers are written down. The number of answers in a conversation says which is next. */
export class LedgerProvider {
  /** The bodies of all calls: each of them was paid. */
  readonly ledger: Body[] = [];
  readonly #script: readonly Said[];
  readonly #held: (() => void)[] = [];
  #waiting: (() => void)[] = [];
  /** The number of the answer, from 0, that stops after its first piece. */
  holdsAt: number | undefined;

  constructor(script: readonly Said[]) {
    this.#script = script;
  }

  async listen(t: TestContext): Promise<string> {
    const server = await modelServer(t, ['m']);
    server.paths.set('/v1/chat/completions', (_request, response, body) =>
      this.#answer(JSON.parse(body), response),
    );
    return server.url;
  }

  /** Waits for a number of calls. */
  async called(count: number): Promise<void> {
    while (this.ledger.length < count) await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  release(): void {
    this.holdsAt = undefined;
    for (const goOn of this.#held.splice(0)) goOn();
  }

  /** Fails unless every call was made once. */
  assertPaid(calls: number): void {
    const asked = this.ledger.map(({ messages }) => JSON.stringify(messages));
    assert.equal(new Set(asked).size, asked.length, 'a call was bought twice');
    assert.equal(asked.length, calls);
  }

  #answer(body: Body, response: ServerResponse): void {
    this.ledger.push(body);
    for (const wake of this.#waiting.splice(0)) wake();
    const turn = body.messages.filter(({ role }: { role: string }) => role === 'assistant').length;
    const { deltas, finish = 'stop' } = this.#script[turn] ?? { deltas: [{ content: 'nothing more' }] };
    const write = (choice: object, more: object = {}): void =>
      void response.write(`data: ${JSON.stringify({ choices: [{ index: 0, ...choice }], ...more })}\n\n`);
    const rest = (): void => {
      for (const delta of deltas.slice(1)) write({ delta });
      write({ delta: {}, finish_reason: finish }, { usage: USAGE });
      response.end('data: [DONE]\n\n');
    };
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    write({ delta: deltas[0] });
    if (turn === this.holdsAt) this.#held.push(rest);
    else rest();
  }
}

export interface Stage {
  readonly provider: LedgerProvider;
  readonly brain: Upstreamed;
  /** Starts a brain on the data of the last one. */
  restart(): Promise<void>;
}

export async function stage(t: TestContext, script: readonly Said[] = FOXES): Promise<Stage> {
  const provider = new LedgerProvider(script);
  const upstreams = [{ url: await provider.listen(t), name: 'up', paid: true }];
  const brain = await serveUpstreams(t, upstreams);
  await brain.api.untilModels('m');
  const restart = async (): Promise<void> => {
    await serveUpstreams(t, upstreams, { data: brain.data, port: brain.port });
  };
  return { provider, brain, restart };
}

const MAIN = join(import.meta.dirname, 'ai-sdk-main.ts');

/** A program of `ai-sdk-main.ts`. */
export class Program {
  readonly lines: Line[] = [];
  /** Its exit code; null where it was killed. */
  readonly ended: Promise<number | null>;
  readonly #child: ReturnType<typeof spawn>;
  #waiting: (() => void)[] = [];
  #hasEnded = false;

  constructor(t: TestContext, plan: Plan) {
    const child = spawn(process.execPath, [MAIN, JSON.stringify(plan)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    this.#child = child;
    t.after(() => child.kill('SIGKILL'));
    const lines = createInterface({ input: child.stdout });
    lines.on('line', (text) => {
      this.lines.push(JSON.parse(text) as Line);
      this.#wake();
    });
    const exited = new Promise<number | null>((resolve) => child.once('exit', resolve));
    const read = new Promise<void>((resolve) => lines.once('close', resolve));
    this.ended = read.then(() => exited);
    void this.ended.then(() => {
      this.#hasEnded = true;
      this.#wake();
    });
  }

  /** Waits until the program has said something. */
  async said(is: Line['is'], count = 1): Promise<void> {
    while (this.lines.filter((line) => line.is === is).length < count) {
      assert.ok(!this.#hasEnded, `the program has ended before it said "${is}"`);
      await within(new Promise<void>((resolve) => this.#waiting.push(resolve)));
    }
  }

  /** kill -9. */
  async kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    assert.equal(await this.ended, null);
  }

  /** Waits for the end of the program; returns its answer. */
  async finish(): Promise<Extract<Line, { is: 'end' }>> {
    assert.equal(await within(this.ended), 0);
    const last = this.lines.at(-1);
    assert.ok(last?.is === 'end');
    return last;
  }

  #wake(): void {
    for (const wake of this.#waiting.splice(0)) wake();
  }
}
