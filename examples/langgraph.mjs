/**
 * An agent of LangGraph whose calls of the model are jobs of the queue, in a session of their own.
 *
 *   npm install @langchain/langgraph @langchain/openai @langchain/core zod
 *   ORCHD_URL=http://127.0.0.1:8080 MODEL=qwen3 node langgraph.mjs my-session "Where are the foxes?"
 */
import { tool } from '@langchain/core/tools';
import { createReactAgent } from '@langchain/langgraph/prebuilt';
import { ChatOpenAI } from '@langchain/openai';
import { z } from 'zod';

const [session = 'my-session', question = 'Where are the foxes?'] = process.argv.slice(2);

const llm = new ChatOpenAI({
  model: process.env.MODEL ?? 'demo',
  apiKey: process.env.ORCHD_TOKEN ?? 'none',
  useResponsesApi: false, // orchd has no Responses API
  configuration: {
    baseURL: `${process.env.ORCHD_URL ?? 'http://127.0.0.1:8080'}/v1`,
    defaultHeaders: { 'x-orchd-session': session },
  },
});

const look = tool(async ({ place }) => `there is a fox in ${place}`, {
  name: 'look',
  description: 'Says what is at a place',
  schema: z.object({ place: z.string() }),
});

const agent = createReactAgent({ llm, tools: [look], prompt: 'You look for foxes.' });
const { messages } = await agent.invoke({ messages: [{ role: 'user', content: question }] });
console.log(messages.at(-1).content);
