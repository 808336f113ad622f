/**
 * An agent of the AI SDK over the bridge, in a process that a test kills: `node ai-sdk-main.ts PLAN`, the plan as JSON. It
 * says on stdout, one JSON object a line, what it does; the last line has the answer.
 */
import { writeSync } from 'node:fs';
import { generateText, isStepCount, jsonSchema, streamText, ToolLoopAgent, tool } from 'ai';
import { orchd } from '../../src/ai-sdk/index.ts';

export interface Plan {
  readonly url: string;
  readonly run?: string;
  readonly how: 'generateText' | 'streamText' | 'agent';
  /** Where the program waits for ever. */
  readonly hold?: 'tool' | 'end';
}

/** What the program says. */
export type Line =
  | { readonly is: 'tool'; readonly place: string }
  | { readonly is: 'text'; readonly text: string }
  | { readonly is: 'answered' }
  | {
      readonly is: 'end';
      readonly text: string;
      readonly steps: number;
      readonly inputTokens: number | undefined;
    };

const { url, run, how, hold } = JSON.parse(process.argv[2] ?? '') as Plan;

const say = (line: Line): void => void writeSync(1, `${JSON.stringify(line)}\n`);
const forEver = (): Promise<never> => new Promise(() => setInterval(() => undefined, 60_000));

const look = tool({
  description: 'Says what is at a place',
  inputSchema: jsonSchema<{ place: string }>({
    type: 'object',
    properties: { place: { type: 'string' } },
    required: ['place'],
  }),
  execute: async ({ place }) => {
    say({ is: 'tool', place });
    if (hold === 'tool') await forEver();
    return `there is a fox in ${place}`;
  },
});

const model = orchd({ url, ...(run !== undefined && { run }) })('m');
const instructions = 'You look for foxes.';
const prompt = 'Where are the foxes?';
const settings = { model, instructions, prompt, tools: { look }, stopWhen: isStepCount(5) };

async function generated() {
  if (how === 'agent')
    return new ToolLoopAgent({ model, instructions, tools: { look } }).generate({ prompt });
  return generateText(settings);
}

async function streamed() {
  const result = streamText({ ...settings, onError: ({ error }) => console.error(error) });
  for await (const text of result.textStream) say({ is: 'text', text });
  return { text: await result.text, steps: await result.steps, usage: await result.usage };
}

const { text, steps, usage } = how === 'streamText' ? await streamed() : await generated();
say({ is: 'answered' });
if (hold === 'end') await forEver();
say({ is: 'end', text, steps: steps.length, inputTokens: usage.inputTokens });
process.exit(0);
