/**
 * A brain with an agent in a process of its own, which a test kills: `node agent-process-main.ts PLAN`, the plan as JSON.
 * Every call of the model and of a tool is a line on stdout when it begins, when it ends and when the brain has kept its
 * end; the last line has the results of all runs.
 */
import { writeSync } from 'node:fs';
import { createOrchestrator, type Orchestrator, type Tool } from '../../src/index.ts';
import { createLogger } from '../../src/kit/logger.ts';
import { type Said, ScriptedModel } from '../fakes/scripted-model.ts';
import type { CallLine, ProcessPlan } from './agent-process.ts';
import { placed } from './flow-kit.ts';

const { data, runs, hold } = JSON.parse(process.argv[2] ?? '') as ProcessPlan;

const say = (line: object): void => void writeSync(1, `${JSON.stringify(line)}\n`);

const started = Promise.withResolvers<Orchestrator>();

/** Notes a call as `<run>.<name>`; one that is held never ends. */
async function call<T>(jobId: string, name: string, result: T): Promise<T> {
  const noted = `${jobId.split('.')[0]}.${name}`;
  say({ call: noted, is: 'begin' } satisfies CallLine);
  if (hold.includes(noted)) await new Promise<never>(() => undefined);
  say({ call: noted, is: 'end' } satisfies CallLine);
  const kept = async () => (await started.promise).wait(jobId);
  void kept().then(() => say({ call: noted, is: 'kept' } satisfies CallLine));
  return result;
}

const tool = (name: string, effect: Tool['effect']): Tool => ({
  name,
  description: `The tool ${name}.`,
  parameters: { type: 'object', properties: {}, additionalProperties: false },
  effect,
  run: (_args, { jobId }) => call(jobId, name, `${name} is done`),
});

/** First two tools at once, then one, then the answer. */
const SCRIPT: readonly Said[] = [
  {
    calls: [
      ['a', 'send', {}],
      ['b', 'look', {}],
    ],
  },
  { calls: [['c', 'read', {}]] },
  { text: 'all is done' },
];

/** The messages before the last question are those of earlier runs of the session. */
const model = new ScriptedModel((_turn, { messages }, { jobId }) => {
  const asked = messages.findLastIndex(({ role }) => role === 'user');
  const turn = messages.slice(asked).filter(({ role }) => role === 'assistant').length;
  return call(jobId, `model${turn + 1}`, SCRIPT[turn] as Said);
});

const brain = await createOrchestrator({
  ...placed({ data, config: 'agents: [{name: helper, model: scripted, tools: [send, look, read]}]' }),
  logger: createLogger({ write: () => undefined, now: () => 0 }),
  backends: [model.backend({ slots: 16 })],
  tools: [tool('send', 'effectful'), tool('look', 'pure'), tool('read', 'pure')],
});
started.resolve(brain);
for (const { id, session } of runs)
  await brain.submit({
    job_id: id,
    type: 'agent',
    payload: { agent: 'helper', input: 'do it' },
    ...(session !== undefined && { session_id: session }),
  });
const ended = await Promise.all(runs.map(({ id }) => brain.wait(id)));
say({ results: Object.fromEntries(ended.map(({ job_id, result }) => [job_id, result])) });
await brain.stop();
// A held call keeps nothing alive; the pool of a database might.
process.exit(0);
