/** An agent whose model is a real engine: `orchd up --model`, a worker process, a tiny model, and a tool that is called. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import type { RunResult } from '../../src/agents/run.ts';
import type { JobView } from '../../src/model/http/jobs.ts';
import { writeTinyModel } from '../fakes/gguf.ts';
import { orchd } from './cli-process.ts';
import { type ServerProcess, serve, testFolder } from './server-process.ts';

const CONTEXT = 8192;
/** A single thread: several wait for each other on a busy machine. */
const WORKER_ARGS = `--gpu off --threads 1 --slots 1 --context ${CONTEXT}`;

/** The weights are noise, so the call is made because it must be; a tool without arguments leaves one way to call it. */
const AGENT = {
  name: 'doctor',
  model: 'tiny',
  instructions: 'How is the machine?',
  tools: ['machine_health'],
  tool_choice: 'required',
  max_tokens: 200,
};

test('a real model calls a real tool, hears its result and answers', async (t) => {
  let server: ServerProcess | undefined;
  // A server that is stopped ends its worker; one that is killed leaves it to the next server.
  t.after(async () => {
    server?.child.kill('SIGTERM');
    await server?.ended;
  });
  const folder = testFolder(t);
  writeTinyModel(join(folder, 'tiny.gguf'), { contextLength: CONTEXT });
  server = await serve(t, {
    data: join(folder, 'data'),
    config: { agents: [AGENT] },
    args: ['--model', join(folder, 'tiny.gguf'), '--context', String(CONTEXT)],
    env: { ORCHD_WORKER_ARGS: WORKER_ARGS },
  });
  const { url } = server;
  const { code, out, err } = await orchd(['run', 'doctor', 'Hello', '--json', '--url', url]);
  assert.equal(code, 0, err);
  const { reply, steps, error } = JSON.parse(out) as RunResult;
  assert.equal(error, null);
  assert.deepEqual(
    steps.map(({ event, tool, job_id }) => [tool ?? event, job_id?.replace(/^[^.]+/, '')]),
    [
      ['llm_call', '.1'],
      ['machine_health', '.2.0'],
      ['llm_call', '.3'],
    ],
  );
  const job = async (id: string): Promise<JobView> => (await fetch(`${url}/v2/tasks/${id}`)).json() as never;
  const [asked, called, answered] = (await Promise.all(steps.map(({ job_id }) => job(job_id ?? '')))) as [
    JobView,
    JobView,
    JobView,
  ];
  // The call was decoded by the engine of a worker process.
  const { tool_calls: calls } = asked.result as { tool_calls: { function: object }[] };
  assert.deepEqual(
    calls.map((call) => call.function),
    [{ name: 'machine_health', arguments: '{}' }],
  );
  assert.match(asked.attempts.at(-1)?.backend ?? '', /^local\/w-/);
  // The tool has told what this machine is like, and the engine has read it: every character is a token of this model.
  const { ok, text: told } = called.result as { ok: boolean; text: string };
  assert.equal(ok, true);
  assert.ok(JSON.parse(told).cores > 0, told);
  const { messages } = answered.payload as { messages: { role: string; content: string }[] };
  const heard = messages.at(-1);
  assert.equal(heard?.role, 'tool');
  assert.ok(heard.content.includes(told), heard.content);
  assert.ok((answered.usage?.prompt_tokens ?? 0) > told.length);
  assert.match(reply, /^[a-z" ]+/);
  assert.equal(reply, (answered.result as { text: string }).text);
});
