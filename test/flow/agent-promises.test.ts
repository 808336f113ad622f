/** The promises of the agent runtime that a caller sees, on every store: planning by rule, tools at once, words as they come. */
import assert from 'node:assert/strict';
import { describe, type TestContext } from 'node:test';
import type { RunResult } from '../../src/agents/run.ts';
import type { Tool } from '../../src/index.ts';
import { SseReader } from '../../src/wire/sse.ts';
import { type HttpBrain, httpBrain } from '../fakes/http-brain.ts';
import { ScriptedModel } from '../fakes/scripted-model.ts';
import { unmarked } from '../fakes/unmarked.ts';
import { onStores, placed, STORES, within } from './flow-kit.ts';
import { clientOf } from './openai-kit.ts';

const CONFIG = `
agents:
  - {name: helper, model: scripted, tools: [left, right, broken, silent]}
  - {name: thinker, model: scripted, tools: [look], plan: {min_characters: 20}}
  - {name: slow, model: scripted, tools: [left, right, look]}
limits:
  - {scope: "agent:default/slow", requests_per_sec: 4, burst_requests: 3}
`;

const tool = (name: string, run: Tool['run'], more: Partial<Tool> = {}): Tool => ({
  name,
  description: `The tool ${name}.`,
  parameters: { type: 'object', properties: {} },
  effect: 'pure',
  run,
  ...more,
});

async function site(
  t: TestContext,
  data: string,
  model: ScriptedModel,
  tools: readonly Tool[] = [],
): Promise<HttpBrain> {
  const known = ['look', 'left', 'right', 'broken', 'silent'].map(
    (name) => tools.find((each) => each.name === name) ?? tool(name, () => `${name} is done`),
  );
  const brain = await httpBrain({
    ...placed({ data, config: CONFIG }),
    backends: [model.backend()],
    tools: known,
  });
  t.after(() => brain.stop());
  return brain;
}

async function run(
  { orchestrator }: HttpBrain,
  id: string,
  agent: string,
  input: string,
): Promise<RunResult> {
  await orchestrator.submit({ job_id: id, type: 'agent', payload: { agent, input } });
  return (await within(orchestrator.wait(id))).result as RunResult;
}

describe('a run of an agent', () => {
  onStores(
    '[ADR-1] plans or skips planning by the rule of its agent, and goes from state to state to its end',
    STORES,
    async (t, data) => {
      // The plan is no answer of the conversation yet: the model is asked for it without tools.
      const model = new ScriptedModel((_turn, { messages, tools }) => {
        if (!tools) return { text: '1. look' };
        return messages.at(-1)?.role === 'tool' ? { text: 'seen' } : { calls: [['a', 'look', {}]] };
      });
      const brain = await site(t, data, model);
      const short = await run(brain, 'short', 'thinker', 'x'.repeat(19));
      const long = await run(brain, 'long', 'thinker', 'x'.repeat(20));
      const states = ({ steps }: RunResult) => steps.map(({ event }) => event);
      assert.deepEqual(states(short), ['llm_call', 'tool_call', 'llm_call']);
      assert.deepEqual(states(long), ['plan', 'llm_call', 'tool_call', 'llm_call']);
      assert.deepEqual([short.reply, short.error, long.reply, long.error], ['seen', null, 'seen', null]);
      const planned = model.heard.map(({ messages }) =>
        messages.some(({ content }) => /1\. look/.test(content)),
      );
      // Two calls of the short run, then the call for the plan; once made, the plan stays before the model.
      assert.deepEqual(planned, [false, false, false, true, true]);
    },
  );

  onStores(
    '[ADR-4] calls the tools of one answer at once and gives the results to the model; one that fails is told to it and ends nothing',
    STORES,
    async (t, data) => {
      const model = new ScriptedModel((turn) => {
        const calls = ['left', 'broken', 'right', 'silent', 'nobody'].map(
          (name) => [name, name, {}] as const,
        );
        if (turn === 0) return { calls };
        return turn === 1 ? { calls: [['again', 'left', {}]] } : { text: 'well' };
      });
      const order: string[] = [];
      const both = Promise.withResolvers<void>();
      /** Ends only once both have begun: one after the other they would wait for ever. */
      const meets = (name: string) =>
        tool(name, async () => {
          order.push(`${name} begins`);
          if (order.includes('left begins') && order.includes('right begins')) both.resolve();
          await both.promise;
          order.push(`${name} ends`);
          return `from ${name}`;
        });
      const broken = tool('broken', () => {
        throw new Error('it is broken');
      });
      const silent = tool('silent', () => new Promise(() => undefined), { timeoutMs: 1000 });
      const brain = await site(t, data, model, [meets('left'), meets('right'), broken, silent]);
      const { reply, error, steps } = await run(brain, 'r', 'helper', 'do all');
      assert.deepEqual([reply, error], ['well', null]);
      assert.deepEqual(order.slice(0, 2).sort(), ['left begins', 'right begins']);
      const told = (at: number) =>
        model.heard[at]?.messages.flatMap(({ role, content }) =>
          role === 'tool' ? [unmarked(content)] : [],
        );
      assert.deepEqual(told(1)?.length, 5);
      assert.deepEqual(told(1)?.slice(0, 4), [
        'error: there is no tool of this name',
        'from left',
        'error: it is broken',
        'from right',
      ]);
      assert.match(told(1)?.[4] ?? '', /^error: .*did not end within 1000 ms/);
      // What the model asks for after it has heard of these is called after these.
      assert.deepEqual([order.slice(-2), told(2)?.at(-1)], [['left begins', 'left ends'], 'from left']);
      assert.deepEqual(
        steps.map(({ tool: name, error: code }) => [name, code]),
        [
          [undefined, undefined],
          ['nobody', 'UNKNOWN_TOOL'],
          ['left', undefined],
          ['broken', 'TOOL_FAILED'],
          ['right', undefined],
          ['silent', 'TOOL_FAILED'],
          [undefined, undefined],
          ['left', undefined],
          [undefined, undefined],
        ],
      );
    },
  );
});

describe('a call of a tool that is not admitted for now', () => {
  onStores(
    'is made once, when there is room, and the model hears of nothing else',
    STORES,
    async (t, data) => {
      const names = ['left', 'right', 'look'];
      const calls = names.map((name) => [name, name, {}] as const);
      const model = new ScriptedModel((turn) => (turn === 0 ? { calls } : { text: 'well' }));
      const called: string[] = [];
      const noted = (name: string) => tool(name, () => `${called.push(name)}`);
      const brain = await site(t, data, model, names.map(noted));
      // The run and its first call leave room for one of the three.
      const { reply, error } = await run(brain, 'r', 'slow', 'do all');
      assert.deepEqual([reply, error], ['well', null]);
      assert.deepEqual(called.toSorted(), names.toSorted());
      const told = model.heard.at(-1)?.messages.filter(({ role }) => role === 'tool') ?? [];
      assert.deepEqual(told.map(({ content }) => unmarked(content)).toSorted(), ['1', '2', '3']);
    },
  );
});

/** A model that says its second word only after the caller has heard the first one, in each of two calls. */
class Hesitant {
  /** Resolved by the caller, word by word. */
  readonly heard = new Map(['one ', 'three '].map((word) => [word, Promise.withResolvers<void>()]));

  readonly model = new ScriptedModel(async (turn, _heard, { emit }) => {
    const emitted = turn === 0 ? 'one ' : 'three ';
    emit(emitted);
    await this.heard.get(emitted)?.promise;
    return turn === 0
      ? { text: 'one two ', emitted, calls: [['a', 'left', {}]] }
      : { text: 'three four', emitted };
  });

  /** Whoever has this text so far has heard these words. */
  hears(text: string): void {
    for (const [word, { resolve }] of this.heard) if (text.includes(word)) resolve();
  }
}

describe('the words of a model', () => {
  onStores(
    '[ADR-5] reach the caller of a run while the model holds back the next one',
    STORES,
    async (t, data) => {
      const hesitant = new Hesitant();
      const brain = await site(t, data, hesitant.model);
      const started = await fetch(`${brain.url}/v2/agents/helper/runs`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ run_id: 'r', input: 'count' }),
      });
      assert.equal(started.status, 202);
      let text = '';
      const events: string[] = [];
      const reader = new SseReader(({ event, data: told }) => {
        events.push(event);
        if (event !== 'token') return;
        text += (JSON.parse(told) as { t: string }).t;
        hesitant.hears(text);
      });
      const follow = async (): Promise<void> => {
        const { body } = await fetch(`${brain.url}/v2/runs/r/events`);
        for await (const piece of body as unknown as AsyncIterable<Uint8Array>)
          reader.push(Buffer.from(piece).toString());
      };
      await within(follow());
      assert.deepEqual([text, events.at(-1)], ['one two three four', 'end']);
    },
  );

  onStores(
    '[ADR-5] reach the caller of `agent:NAME` at /v1 while the model holds back the next one',
    STORES,
    async (t, data) => {
      const hesitant = new Hesitant();
      const brain = await site(t, data, hesitant.model);
      let text = '';
      const follow = async (): Promise<void> => {
        const stream = await clientOf(brain.url).chat.completions.create({
          model: 'agent:helper',
          messages: [{ role: 'user', content: 'count' }],
          stream: true,
        });
        for await (const { choices } of stream) {
          text += choices[0]?.delta.content ?? '';
          hesitant.hears(text);
        }
      };
      await within(follow());
      assert.equal(text, 'one two \n\nthree four');
    },
  );
});
