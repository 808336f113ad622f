/** The examples of agents, as their first lines say to use them, with a model that calls every tool once. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parse } from 'yaml';
import { orchd } from './cli-process.ts';
import { within } from './flow-kit.ts';
import { modelServer, serveUpstreams } from './upstream-kit.ts';

const ROOT = join(import.meta.dirname, '../..');

/** The calls that the model makes, and what the tools must have told it. */
const EXAMPLES = {
  librarian: [
    ['list_files', {}, /agents\.md/],
    ['search_files', { text: 'A run is a job' }, /agents\.md/],
    ['read_file', { path: 'agents.md' }, /^--- data \w+ ---\n# Agents/],
  ],
  machine: [
    ['machine_health', {}, /"disk_free_bytes":\{"data":\d+\}/],
    ['current_time', {}, /"time_zone":"UTC"/],
  ],
} as const;

const delta = (value: object, finish: string | null = null): string =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta: value, finish_reason: finish }] })}\n\n`;

for (const [name, calls] of Object.entries(EXAMPLES)) {
  test(`examples/agent-${name}.yaml is a configuration whose agent can use its tools`, async (t) => {
    const file = join(ROOT, `examples/agent-${name}.yaml`);
    assert.equal((await orchd(['config', 'check', file])).code, 0);
    const model = await modelServer(t, ['qwen3']);
    const told: string[] = [];
    model.paths.set('/v1/chat/completions', (_request, response, body) => {
      const { messages } = JSON.parse(body) as { messages: { role: string; content: string }[] };
      const turn = messages.filter(({ role }) => role === 'assistant').length;
      if (turn > 0) told.push(messages.at(-1)?.content ?? '');
      const [tool, args] = calls[turn] ?? [];
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      const asked = { name: tool, arguments: JSON.stringify(args) };
      if (tool)
        response.write(delta({ tool_calls: [{ index: 0, id: 'c', type: 'function', function: asked }] }));
      else response.write(delta({ content: 'All is well.' }));
      response.end(`${delta({}, tool ? 'tool_calls' : 'stop')}data: [DONE]\n\n`);
    });
    const settings = parse(readFileSync(file, 'utf8')) as object;
    const brain = await serveUpstreams(t, [{ url: model.url }], { settings });
    await brain.api.untilModels('qwen3', `agent:${name}`);
    const { code, out, err } = await orchd(['run', name, 'How is it?'], { env: { ORCHD_URL: brain.url } });
    assert.deepEqual([code, out], [0, 'All is well.\n'], err);
    calls.forEach(([, , expected], at) => {
      assert.match(told[at] ?? '', expected);
    });
  });
}

test('examples/agent-team.yaml is a configuration whose planner and critic are merged once a person has seen both', async (t) => {
  const file = join(ROOT, 'examples/agent-team.yaml');
  assert.equal((await orchd(['config', 'check', file])).code, 0);
  const model = await modelServer(t, ['qwen3']);
  const heard: string[] = [];
  model.paths.set('/v1/chat/completions', (_request, response, body) => {
    const { messages } = JSON.parse(body) as { messages: { role: string; content: string }[] };
    heard.push(messages.map(({ content }) => content).join('\n'));
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(delta({ content: `Answer ${heard.length}.` }));
    response.end(`${delta({}, 'stop')}data: [DONE]\n\n`);
  });
  const settings = parse(readFileSync(file, 'utf8')) as object;
  const brain = await serveUpstreams(t, [{ url: model.url }], { settings });
  await brain.api.untilModels('qwen3', 'agent:team', 'agent:planner', 'agent:critic');
  const env = { ORCHD_URL: brain.url };
  const run = orchd(['run', 'team', 'How is it?'], { env });
  const asked = async (): Promise<string> => {
    for (;;) {
      const { out } = await orchd(['approvals'], { env });
      if (out !== '') return out;
    }
  };
  const waits = await within(asked());
  const [call = ''] = waits.split('\n');
  assert.match(waits, /team waits before it goes on \(the answer is to be given\): \{"branches":/);
  assert.equal((await orchd(['approve', call], { env })).code, 0);
  const { code, out, err } = await run;
  assert.deepEqual([code, out], [0, 'Answer 3.\n'], err);
  assert.match(err, /asks the branch planner[\s\S]*waits before it goes on: orchd approve/);
  assert.match(heard[2] ?? '', /planner says:[\s\S]*Answer \d\.[\s\S]*critic says:[\s\S]*Answer \d\./);
});
