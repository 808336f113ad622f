/**
 * Runs of agents: what a step costs beside a plain job, how many runs end in a second beside LangGraph, and how many bytes
 * a long run writes.
 */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { type Bench, BODY, type Options, type Row, type Values } from '../kit/bench.ts';
import { inChild } from '../kit/child.ts';
import { Meter } from '../kit/meter.ts';
import { inFlight } from '../kit/numbers.ts';
import { perItem, steady } from '../kit/steady.ts';
import {
  type AgentName,
  type ModelAnswer,
  type ModelRequest,
  openAgentRuns,
  openAgents,
  type ScriptedModel,
} from '../systems/agents-orchd.ts';
import { LANGGRAPH, openLangGraph } from '../systems/langgraph.ts';
import { installPeers } from '../systems/peer.ts';
import { type PostgresAddress, startPostgres } from '../systems/postgres.ts';

const IN_FLIGHT = 64;
/** Jobs, and runs, of one turn, and the turns: the machine's own speed changes from one second to the next. */
const PER_TURN = 1024;
const TURNS = 12;

type Args = { readonly folder: string } & (
  | { readonly is: 'step'; readonly quick: boolean }
  | { readonly is: 'runs'; readonly quick: boolean; readonly langGraph: LangGraphAt | undefined }
);

interface LangGraphAt {
  readonly at: PostgresAddress;
  readonly pid: number;
}

export function measure(args: Args): Promise<Values> {
  return args.is === 'step' ? measureSteps(args.folder, args.quick) : measureRuns(args);
}

const ANSWER: ModelAnswer = { text: 'An answer with as many letters as a short sentence.' };

/**
 * A step is one decision and one call of the model: what a run that plans and answers, with two calls, costs beyond one that
 * only answers. It stands beside a plain job with a small body and no result, and beside the last call of such a run
 * submitted as a plain job: that one has the same body and the same result. One brain runs all of them, by turns.
 */
async function measureSteps(folder: string, quick: boolean): Promise<Values> {
  let lastCall: ModelRequest = { messages: [] };
  const model: ScriptedModel = (request) => {
    lastCall = request;
    return ANSWER;
  };
  const brain = await openAgents({ folder, slots: IN_FLIGHT, model });
  const run = async (agent: AgentName, calls: number): Promise<void> => {
    const { steps } = await brain.run(BODY, agent);
    if (steps.length !== calls) throw new Error(`a run has ${steps.length} steps, ${calls} were wanted`);
  };
  await run('planner', 2);
  const sameCall = lastCall;
  const kinds = {
    cycle: () => brain.cycle(BODY),
    call: () => brain.call(sameCall),
    one: () => run('clerk', 1),
    two: () => run('planner', 2),
  };
  const turn = async (kind: keyof typeof kinds): Promise<Values> => {
    const meter = new Meter(folder);
    const syncs = brain.syncs();
    await inFlight(PER_TURN, IN_FLIGHT, kinds[kind]);
    // The history is written in the background, a while later: without this a turn would pay for the one before it.
    await brain.indexed();
    return perItem(meter.read(), PER_TURN, brain.syncs() - syncs);
  };
  const turns = quick ? 2 : TURNS;
  const measured = {
    cycle: [] as Values[],
    call: [] as Values[],
    one: [] as Values[],
    two: [] as Values[],
  };
  for (let at = 0; at < 2 * turns; at++)
    for (const kind of ['cycle', 'call', 'one', 'two'] as const) {
      const values = await turn(kind);
      // The first half warms up.
      if (at >= turns) measured[kind].push(values);
    }
  await brain.orchestrator.stop();
  // The mean, and not the best turn: some work comes once in several turns, such as the checkpoint of the history's
  // write-ahead log, and a best turn without it would not show what a job costs.
  const cycleUs = mean(measured.cycle, 'cpuUs');
  const callUs = mean(measured.call, 'cpuUs');
  const stepUs = mean(measured.two, 'cpuUs') - mean(measured.one, 'cpuUs');
  return {
    cycleUs,
    stepUs,
    callUs,
    ratio: stepUs / cycleUs,
    ratioToCall: stepUs / callUs,
    cycleSyncs: mean(measured.cycle, 'ownSyncs'),
    stepSyncs: mean(measured.two, 'ownSyncs') - mean(measured.one, 'ownSyncs'),
    otherCores: mean(Object.values(measured).flat(), 'otherCores'),
  };
}

const mean = (turns: readonly Values[], name: string): number =>
  turns.reduce((sum, values) => sum + Number(values[name] ?? 0), 0) / turns.length;

/** Long windows: LangGraph needs about a second for 64 runs where the machine is busy. */
const windowFor = (quick: boolean) =>
  quick ? { warmMs: 2000, measureMs: 3000 } : { warmMs: 4000, measureMs: 8000 };

async function measureRuns({ folder, quick, langGraph }: Extract<Args, { is: 'runs' }>): Promise<Values> {
  const system = await (langGraph
    ? openLangGraph(langGraph.at, langGraph.pid, IN_FLIGHT)
    : openAgentRuns(folder, IN_FLIGHT));
  const { syncs, servers } = system;
  const shape = { inFlight: IN_FLIGHT, ...windowFor(quick), folder, servers };
  const values = await steady({ ...shape, ...(syncs && { syncs }) }, () => system.run());
  await system.close();
  return values;
}

const child = (args: Args): Promise<Values> => inChild({ measure, url: import.meta.url }, args);

export const bench: Bench = {
  name: 'agents',
  title: 'runs of agents (64 at once): a step beside a plain job; model, two tools, model beside LangGraph',
  rounds: 'every',
  async run(options) {
    const folder = join(options.folder, 'agents');
    const step = { case: 'agent step', values: await child({ folder, is: 'step', quick: options.quick }) };
    rmSync(folder, { recursive: true });
    return [step, ...(await runsInTurns(options, folder))];
  },
};

async function runsInTurns({ folder, quick }: Options, ours: string): Promise<Row[]> {
  const values = await child({ folder: ours, is: 'runs', quick, langGraph: undefined });
  rmSync(ours, { recursive: true });
  const row = { case: 'agent runs orchd', values };
  const problem = installPeers(...LANGGRAPH);
  if (problem) return [row, { case: 'agent runs LangGraph', values: { note: `peer skipped: ${problem}` } }];
  const data = join(folder, 'langgraph');
  const postgres = await startPostgres(data);
  try {
    const langGraph = { at: await postgres.database(), pid: postgres.pid };
    const theirs = await child({ folder: data, is: 'runs', quick, langGraph });
    return [row, { case: 'agent runs LangGraph', values: theirs }];
  } finally {
    await postgres.stop();
    rmSync(data, { recursive: true });
  }
}
