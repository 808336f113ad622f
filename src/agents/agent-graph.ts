/** Which agents call which: refused are agents that would call each other without end, or too deeply. */
import type { AgentConfig } from '../config/agents.ts';
import { didYouMean } from '../kit/nearest.ts';
import { MAX_RUN_DEPTH } from '../model/agent.ts';
import { OrchdError } from '../model/errors.ts';

type Calling = Pick<AgentConfig, 'name' | 'tools' | 'branches' | 'plan'>;

/** Throws INVALID_PARAMS. */
export function checkCalls(agents: readonly Calling[]): void {
  const known = new Map(agents.map((agent) => [agent.name, agent]));
  for (const [at, agent] of agents.entries()) checkBranches(agent, known, at);
  const depths = new Map<string, number>();
  for (const [at, { name }] of agents.entries()) {
    const depth = depthOf(name, known, depths, [], at);
    if (depth > MAX_RUN_DEPTH)
      throw refusal(
        at,
        'tools',
        `at most ${MAX_RUN_DEPTH} agents call each other, and "${name}" is the first of ${depth}`,
      );
  }
}

function checkBranches(
  { name, branches, plan = 'never' }: Calling,
  known: ReadonlyMap<string, Calling>,
  at: number,
): void {
  if (!branches) return;
  if (plan !== 'never')
    throw refusal(
      at,
      'plan',
      `the agent "${name}" has branches, which take the place of a plan: leave out one of them`,
    );
  for (const branch of branches)
    if (!known.has(branch)) {
      const hint = didYouMean(branch, [...known.keys()]);
      throw refusal(
        at,
        'branches',
        `the agent "${name}" has a branch "${branch}", and there is no such agent${hint}`,
      );
    }
}

/** The agents below each other, with this one. `above`: those that lead to it. */
function depthOf(
  name: string,
  known: ReadonlyMap<string, Calling>,
  depths: Map<string, number>,
  above: readonly string[],
  at: number,
): number {
  const from = above.indexOf(name);
  if (from >= 0)
    throw refusal(
      at,
      'tools',
      `agents call each other without end: ${[...above.slice(from), name].join(' -> ')}`,
    );
  const found = depths.get(name);
  if (found !== undefined) return found;
  const { tools = [], branches = [] } = known.get(name) as Calling;
  const called = [...new Set([...tools, ...branches])].filter((each) => known.has(each));
  const below = called.map((each) => depthOf(each, known, depths, [...above, name], at));
  const depth = 1 + Math.max(0, ...below);
  depths.set(name, depth);
  return depth;
}

const refusal = (at: number, field: string, message: string): OrchdError =>
  new OrchdError('INVALID_PARAMS', message, { field: `agents[${at}].${field}` });
