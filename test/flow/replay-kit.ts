/** Agents, tools and a model whose answers are drawn from a seed: runs of every kind, recorded and replayed. */
import type { TestContext } from 'node:test';
import type { FunctionContext } from '../../src/backends/local/functions.ts';
import type { Tool } from '../../src/index.ts';
import { type HttpBrain, httpBrain } from '../fakes/http-brain.ts';
import { type Heard, type Said, ScriptedModel } from '../fakes/scripted-model.ts';
import { placed, within } from './flow-kit.ts';

// biome-ignore lint/suspicious/noExplicitAny: each test knows what it asked for
export type Json = any;

const TOOLS = '[look, send, broken, strict, careful]';
export const CONFIG = `
agents:
  - {name: plain, model: scripted, instructions: Help with orders., tools: ${TOOLS}, approve: [careful]}
  - {name: planner, model: scripted, plan: always, tools: [look, send]}
  - {name: former, model: scripted, fallback: other, output: {type: object, required: [ok]}}
  - {name: short, model: scripted, tools: [look, broken], max_steps: 3, parallel_tools: 2}
  - {name: saving, model: scripted, tools: [look], budget: {tokens: 1500, wall_ms: 600000}, max_tokens: 100}
  - {name: backed, model: scripted, fallback: other, tools: [look]}
  - {name: slow, model: scripted, tools: [look, send]}
limits:
  - {scope: "agent:default/slow", requests_per_sec: 4, burst_requests: 3}
`;
export const AGENTS = ['plain', 'planner', 'former', 'short', 'saving', 'backed', 'plain'] as const;

/** A number from 0 to 1 that depends on the texts alone. */
export function chance(...texts: readonly unknown[]): number {
  let hash = 2166136261;
  for (const char of texts.join('/')) hash = Math.imul(hash ^ char.charCodeAt(0), 16777619);
  hash = Math.imul(hash ^ (hash >>> 15), 2246822507);
  return ((hash ^ (hash >>> 13)) >>> 0) / 2 ** 32;
}

/** Counts what is really called. */
export class Counts {
  models = 0;
  /** What models were asked for beside an answer to their caller. */
  readonly asked = new Set<string>();
  readonly tools: string[] = [];
}

export function tools(counts: Counts): readonly Tool[] {
  const tool = (name: string, run: Tool['run'], more: Partial<Tool> = {}): Tool => ({
    name,
    description: `The tool ${name}.`,
    parameters: { type: 'object', properties: { n: { type: 'integer' } } },
    effect: 'pure',
    run: (args, context) => {
      counts.tools.push(name);
      return run(args, context);
    },
    ...more,
  });
  return [
    tool('look', ({ n }) => `order ${n}: ${'sent '.repeat(Number(n ?? 1) * 40)}`),
    tool('send', ({ n }) => ({ sent: n }), { effect: 'effectful' }),
    tool('broken', () => {
      throw new Error('it is broken');
    }),
    // What it refuses is not said by its schema.
    tool('strict', () => 'accepted', {
      checkArguments: ({ n }) => (Number(n) > 3 ? 'n is too large today' : undefined),
    } as Partial<Tool>),
    tool('careful', ({ n }) => `done ${n}`, { effect: 'effectful' }),
  ];
}

const NAMES = ['look', 'look', 'send', 'broken', 'strict', 'careful', 'nobody'];

/** What the model answers in a turn of a run: calls of tools, some of them wrong, or an answer, or nothing at all. */
export function drawn(seed: string, counts: Counts) {
  return (turn: number, { messages, tools: told }: Heard, context: FunctionContext): Said => {
    counts.models++;
    const draw = (what: string): number => chance(seed, context.jobId, what);
    // In some runs the model fails most of the time, so that its fallback is asked.
    const failing = chance(seed, context.jobId.split('.')[0]) < 0.25 ? 0.7 : 0.1;
    if (context.model === 'scripted' && draw('fails') < failing) throw new Error('the model is out of order');
    if (messages.some(({ content }) => /budget of this task is used up/.test(content)))
      counts.asked.add('the last answer');
    if (context.model === 'other') counts.asked.add('the fallback');
    const wantsJson = messages.some(({ content }) => /does not have the form/.test(content));
    if (wantsJson) counts.asked.add('a repair');
    if (!told) return { text: wantsJson || draw('form') < 0.3 ? '{"ok": true}' : `a text of turn ${turn}` };
    if (draw('ends') < 0.2 + turn * 0.1) return { text: `the answer after ${turn}` };
    const count = 1 + Math.floor(draw('count') * 4);
    const calls = Array.from({ length: count }, (_, at) => {
      const name = NAMES[Math.floor(draw(`name ${at}`) * NAMES.length)] as string;
      const n = Math.floor(draw(`n ${at}`) * 6);
      const args = draw(`bad ${at}`) < 0.1 ? '{"n": "many"}' : { n };
      return [draw(`id ${at}`) < 0.1 ? 'same' : `c${turn}-${at}`, name, args] as const;
    });
    return { text: draw('says') < 0.5 ? `I call ${count}` : '', calls };
  };
}

export async function site(
  t: TestContext,
  { data, seed, counts, config = CONFIG }: { data: string; seed: string; counts: Counts; config?: string },
): Promise<HttpBrain> {
  const model = new ScriptedModel(drawn(seed, counts));
  const brain = await httpBrain({
    ...placed({ data, config }),
    backends: [model.backend({ models: ['scripted', 'other'], slots: 8 })],
    tools: tools(counts),
    drainMs: 0,
  });
  t.after(() => brain.stop());
  return brain;
}

export async function call(
  { url }: HttpBrain,
  method: string,
  path: string,
  body?: object,
): Promise<{ readonly status: number; readonly body: Json }> {
  const response = await fetch(url + path, {
    method,
    ...(body && { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, body: text === '' ? undefined : JSON.parse(text) };
}

export const replay = async (brain: HttpBrain, runId: string, body: object = {}): Promise<Json> =>
  (await call(brain, 'POST', `/v2/runs/${runId}/replay`, body)).body;

/** Starts a run, also where a limit refuses it for now. */
export async function start(brain: HttpBrain, agent: string, request: object): Promise<void> {
  for (;;) {
    const { status, body } = await call(brain, 'POST', `/v2/agents/${agent}/runs`, request);
    if (status === 202) return;
    if (status !== 429) throw new Error(JSON.stringify(body));
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

/** Answers every approval, with yes or no by chance, until all runs have ended. */
export async function finish(brain: HttpBrain, runIds: readonly string[], seed: string): Promise<void> {
  const ends = Promise.all(runIds.map((id) => brain.orchestrator.wait(id)));
  let isOver = false;
  void ends.finally(() => {
    isOver = true;
  });
  const answer = async (): Promise<void> => {
    while (!isOver) {
      const { body } = await call(brain, 'GET', '/v2/approvals');
      for (const { call_id, run_id } of body.approvals) {
        const approve = chance(seed, call_id) < 0.6;
        await call(brain, 'POST', `/v2/runs/${run_id}/approve`, {
          call_id,
          approve,
          why: approve ? 'fine' : 'not today',
        });
      }
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  };
  await within(Promise.all([ends, answer()]), 240_000);
}
