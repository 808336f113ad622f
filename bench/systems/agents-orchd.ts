/** Agents of orchd in this process, with models and tools that answer at once. */
import { createOrchestrator } from '../../src/index.ts';
import { Orchestrator } from '../../src/runtime/orchestrator.ts';
import { CONFIG } from '../kit/brain.ts';
import { countingEnv } from '../kit/counting-disk.ts';
import { sleep } from '../kit/numbers.ts';
import { ANSWER, CALLS, INSTRUCTIONS, QUESTION, type RunSystem, TOOL_RESULT } from './agent-script.ts';

const INDEXED_POLL_MS = 20;

/** A call of the model, as far as the scripts read it. */
export interface ModelRequest {
  readonly messages: readonly { readonly role: string; readonly content: string }[];
}

export interface ModelAnswer {
  readonly text: string;
  readonly tool_calls?: readonly object[];
}

export type ScriptedModel = (request: ModelRequest) => ModelAnswer | Promise<ModelAnswer>;

/** A call of a tool as models write it. */
export const toolCall = (id: string, name: string, args: object): object => ({
  id,
  type: 'function',
  function: { name, arguments: JSON.stringify(args) },
});

/** The number of answers that the model has given in this run so far. */
export const answersIn = ({ messages }: ModelRequest): number =>
  messages.filter(({ role }) => role === 'assistant').length;

export interface AgentBrainOptions {
  readonly folder: string;
  readonly slots: number;
  readonly model: ScriptedModel;
  /** The result of the tools. */
  readonly toolResult?: string;
}

export type AgentName = 'clerk' | 'planner';

export interface AgentBrain {
  readonly orchestrator: Orchestrator;
  readonly syncs: () => number;
  /** Runs an agent: one that answers, or one that makes a plan first. Throws for a run that has failed. */
  run(
    input: string,
    agent?: AgentName,
  ): Promise<{ readonly reply: string; readonly steps: readonly { readonly event: string }[] }>;
  /** Submits a job that does nothing, and waits for its end. */
  cycle(body: string): Promise<void>;
  /** Submits a call of the model as a plain job, and waits for its end. */
  call(request: ModelRequest): Promise<void>;
  /** Settles when all jobs have ended and are in the history. */
  indexed(): Promise<void>;
}

const agentConfig = (name: AgentName, plan: 'never' | 'always'): string => `
  - name: ${name}
    model: scripted
    instructions: ${JSON.stringify(INSTRUCTIONS)}
    tools: [${CALLS.map((call) => call.name).join(', ')}]
    max_steps: 1000
    plan: ${plan}`;

export async function openAgents(options: AgentBrainOptions): Promise<AgentBrain> {
  const { folder, slots, model, toolResult = TOOL_RESULT } = options;
  const { env, syncs } = countingEnv();
  const orchestrator = await createOrchestrator({
    data: folder,
    env,
    backends: [
      { name: 'model', slots, models: ['scripted'], types: { inference: model } },
      { name: 'no-op', slots, types: { bench: () => null } },
    ],
    tools: CALLS.map(({ name, args }) => ({
      name,
      description: 'Looks something up.',
      parameters: {
        type: 'object',
        properties: Object.fromEntries(Object.keys(args).map((key) => [key, { type: 'integer' }])),
        required: Object.keys(args),
      },
      effect: 'pure',
      run: () => toolResult,
    })),
    config: `${CONFIG}
agents:
${agentConfig('clerk', 'never')}
${agentConfig('planner', 'always')}
`,
  });
  return {
    orchestrator,
    syncs,
    async run(input, agent = 'clerk') {
      const { job_id } = await orchestrator.submit({ type: 'agent', payload: { agent, input } });
      const { result } = await orchestrator.wait(job_id);
      const { reply, steps, error } = result as {
        reply: string;
        steps: { event: string }[];
        error: unknown;
      };
      if (error) throw new Error(`a run has failed: ${JSON.stringify(error)}`);
      return { reply, steps };
    },
    async cycle(body) {
      const { job_id } = await orchestrator.submit({ type: 'bench', payload: { body } });
      await orchestrator.wait(job_id);
    },
    async indexed() {
      const { jobs } = Orchestrator.engineOf(orchestrator).state;
      while (jobs.size > 0) await sleep(INDEXED_POLL_MS);
    },
    async call(payload) {
      const { job_id } = await orchestrator.submit({ type: 'inference', model: 'scripted', payload });
      await orchestrator.wait(job_id);
    },
  };
}

const twoTools: ScriptedModel = (request) =>
  answersIn(request) > 0
    ? { text: ANSWER }
    : { text: '', tool_calls: CALLS.map(({ id, name, args }) => toolCall(id, name, args)) };

/** The runs that are compared with those of other systems. */
export async function openAgentRuns(folder: string, inFlight: number): Promise<RunSystem> {
  // The two tools of each run are called at once.
  const brain = await openAgents({ folder, slots: 2 * inFlight, model: twoTools });
  return {
    servers: [],
    syncs: brain.syncs,
    async run() {
      const { reply, steps } = await brain.run(QUESTION);
      if (reply !== ANSWER || steps.length !== 2 + CALLS.length) throw new Error('orchd gave another answer');
    },
    close: () => brain.orchestrator.stop(),
  };
}
