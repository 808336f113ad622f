/**
 * An agent of the OpenAI Agents SDK whose calls of the model are jobs of the queue, in a session of their own.
 *
 *   npm install @openai/agents openai zod
 *   ORCHD_URL=http://127.0.0.1:8080 MODEL=qwen3 node openai-agents.mjs my-session "Where are the foxes?"
 */
import { Agent, run, setDefaultOpenAIClient, setOpenAIAPI, setTracingDisabled, tool } from '@openai/agents';
import OpenAI from 'openai';
import { z } from 'zod';

const [session = 'my-session', question = 'Where are the foxes?'] = process.argv.slice(2);

setDefaultOpenAIClient(
  new OpenAI({
    baseURL: `${process.env.ORCHD_URL ?? 'http://127.0.0.1:8080'}/v1`,
    apiKey: process.env.ORCHD_TOKEN ?? 'none',
    defaultHeaders: { 'x-orchd-session': session },
  }),
);
setOpenAIAPI('chat_completions'); // orchd has no Responses API
setTracingDisabled(true); // traces would go to OpenAI

const look = tool({
  name: 'look',
  description: 'Says what is at a place',
  parameters: z.object({ place: z.string() }),
  execute: async ({ place }) => `there is a fox in ${place}`,
});

const agent = new Agent({
  name: 'finder',
  instructions: 'You look for foxes.',
  model: process.env.MODEL ?? 'demo',
  tools: [look],
});

console.log((await run(agent, question)).finalOutput);
