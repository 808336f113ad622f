/**
 * An agent of the AI SDK whose calls of the model are jobs of the queue: kill it at any time and start it again, and no call
 * is bought twice.
 *
 *   npm install ai
 *   ORCHD_URL=http://127.0.0.1:8080 MODEL=qwen3 node examples/ai-sdk.ts my-run "Where are the foxes?"
 */
import { jsonSchema, ToolLoopAgent, tool } from 'ai';
import { orchd } from '../src/ai-sdk/index.ts'; // in a program of yours: from 'orchd/ai-sdk'

const [run = 'my-run', prompt = 'Where are the foxes?'] = process.argv.slice(2);
const queue = orchd({ url: process.env['ORCHD_URL'] ?? 'http://127.0.0.1:8080', run });

const agent = new ToolLoopAgent({
  model: queue(process.env['MODEL'] ?? 'demo'), // the line that makes the agent durable
  instructions: 'You look for foxes.',
  tools: {
    look: tool({
      description: 'Says what is at a place',
      inputSchema: jsonSchema<{ place: string }>({
        type: 'object',
        properties: { place: { type: 'string' } },
        required: ['place'],
      }),
      execute: async ({ place }) => `there is a fox in ${place}`,
    }),
  },
});

console.log((await agent.generate({ prompt })).text);
