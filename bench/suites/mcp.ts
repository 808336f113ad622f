/**
 * Calls of an MCP tool over stdio: what one costs the brain, beside the official client alone plus one durable job. A call
 * is measured by runs that make several at once: a run with tools of an MCP server costs so much more than the same run
 * with functions, whose calls are jobs too.
 */
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { createOrchestrator } from '../../src/index.ts';
import { Orchestrator } from '../../src/runtime/orchestrator.ts';
import { type Bench, BODY, type Values } from '../kit/bench.ts';
import { CONFIG } from '../kit/brain.ts';
import { inChild } from '../kit/child.ts';
import { Meter } from '../kit/meter.ts';
import { inFlight, sleep } from '../kit/numbers.ts';
import { perItem } from '../kit/steady.ts';
import { answersIn, type ModelRequest, toolCall } from '../systems/agents-orchd.ts';

const SERVER = join(import.meta.dirname, '../../test/fakes/mcp-server-main.ts');
const CALLS_PER_RUN = 8;
const RUNS_IN_FLIGHT = 8;
const RUNS_PER_TURN = 64;
const TURNS = 8;
/**
 * Work that ends at once shares its commit with its claim, which work outside of the process cannot: so what stands beside a
 * call takes about as long as the server's answer.
 */
const ANSWER_MS = 1;

interface Args {
  readonly folder: string;
  readonly quick: boolean;
}

const command = (folder: string): readonly string[] => [process.execPath, SERVER, folder];

/** Asks for the tool that the question names, several times at once. */
function model(request: ModelRequest): object {
  if (answersIn(request) > 0) return { text: 'done' };
  const tool = request.messages.findLast(({ role }) => role === 'user')?.content ?? '';
  const calls = Array.from({ length: CALLS_PER_RUN }, (_, at) =>
    toolCall(`c${at}`, tool, { text: `${BODY} ${at}` }),
  );
  return { text: '', tool_calls: calls };
}

async function openBrain(folder: string) {
  const tools = ['look', 'fake__echo'];
  const agents = [{ name: 'a', model: 'scripted', tools }];
  const mcp = [{ name: 'fake', command: command(folder), slots: 64 }];
  const slots = 2 * RUNS_IN_FLIGHT * CALLS_PER_RUN;
  const orchestrator = await createOrchestrator({
    data: join(folder, 'data'),
    backends: [
      { name: 'model', slots, models: ['scripted'], types: { inference: model } },
      { name: 'no-op', slots, types: { bench: () => sleep(ANSWER_MS) } },
    ],
    tools: [
      {
        name: 'look',
        description: 'Looks something up.',
        parameters: { type: 'object', properties: { text: { type: 'string' } } },
        effect: 'effectful',
        run: ({ text }: { text: string }) => sleep(ANSWER_MS).then(() => text),
      },
    ],
    config: `${CONFIG}\nmcp: ${JSON.stringify(mcp)}\nagents: ${JSON.stringify(agents)}\n`,
  });
  const run = async (tool: string): Promise<void> => {
    const { job_id } = await orchestrator.submit({ type: 'agent', payload: { agent: 'a', input: tool } });
    const { result } = await orchestrator.wait(job_id);
    const { steps } = result as { steps: readonly { error?: string }[] };
    if (steps.length !== 2 + CALLS_PER_RUN || steps.some(({ error }) => error))
      throw new Error(JSON.stringify(result));
  };
  const cycle = async (): Promise<void> => {
    const { job_id } = await orchestrator.submit({ type: 'bench', payload: { body: BODY } });
    await orchestrator.wait(job_id);
  };
  const indexed = async (): Promise<void> => {
    const { jobs } = Orchestrator.engineOf(orchestrator).state;
    while (jobs.size > 0) await sleep(20);
  };
  return { orchestrator, run, cycle, indexed };
}

export async function measure({ folder, quick }: Args): Promise<Values> {
  mkdirSync(folder, { recursive: true });
  const brain = await openBrain(folder);
  const client = new Client({ name: 'bench', version: '0' });
  const [program = '', ...args] = command(folder);
  await client.connect(new StdioClientTransport({ command: program, args }));
  const calls = RUNS_PER_TURN * CALLS_PER_RUN;
  const alone = (): Promise<unknown> => client.callTool({ name: 'echo', arguments: { text: BODY } });
  const kinds = {
    client: () => inFlight(calls, RUNS_IN_FLIGHT * CALLS_PER_RUN, alone),
    cycle: () => inFlight(calls, RUNS_IN_FLIGHT * CALLS_PER_RUN, brain.cycle),
    functions: () => inFlight(RUNS_PER_TURN, RUNS_IN_FLIGHT, () => brain.run('look')),
    mcp: () => inFlight(RUNS_PER_TURN, RUNS_IN_FLIGHT, () => brain.run('fake__echo')),
  };
  type Kind = keyof typeof kinds;
  const sums: Record<Kind, number> = { client: 0, cycle: 0, functions: 0, mcp: 0 };
  const turns = quick ? 2 : TURNS;
  for (let at = 0; at < 2 * turns; at++)
    for (const kind of Object.keys(kinds) as Kind[]) {
      const meter = new Meter(folder);
      await kinds[kind]();
      await brain.indexed();
      // The first half warms up.
      if (at >= turns) sums[kind] += Number(perItem(meter.read(), calls, undefined)['cpuUs']) / turns;
    }
  await client.close();
  await brain.orchestrator.stop();
  const callUs = sums.cycle + sums.mcp - sums.functions;
  const { client: clientUs, cycle: cycleUs } = sums;
  return { clientUs, cycleUs, callUs, ratio: callUs / (clientUs + cycleUs) };
}

export const bench: Bench = {
  name: 'mcp',
  title: 'a call of an MCP tool over stdio, beside the official client alone plus one durable job',
  rounds: 'every',
  async run({ folder, quick }) {
    const own = join(folder, 'mcp');
    const values = await inChild({ measure, url: import.meta.url }, { folder: own, quick });
    rmSync(own, { recursive: true, force: true });
    return [{ case: 'mcp call', values }];
  },
};
