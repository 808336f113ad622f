/**
 * What a decision of a run depended on that no other record has: the run notes it, so that replay can decide the same again
 * (docs/decisions/0040). Everything else is in the state of the run, in its request, or in the jobs below it.
 *
 * D1  Whatever a step is given is derived from the state of the run, from the jobs below it, or from a DecisionInput. A
 *     step that read a clock, chance or the configuration otherwise could not be replayed.
 * D2  Only what is not as it was before is noted: a run without budgets, refusals and changes of its tools has one entry.
 */
import { stableHash } from '../../kit/hash.ts';
import type { RunBudget } from '../../model/agent.ts';
import { leftOf } from '../budget.ts';
import type { BudgetLeft, EndedCall, RunReport, RunState, ToolOffer } from '../run-state.ts';
import type {
  BadArguments,
  DecisionInput,
  NotedFault,
  RunRecord,
  ToolFacts,
  UsedBudget,
} from './run-record.ts';

/** Undefined for a run that began in a version that noted nothing. */
export function recordOf({ agent, heard, decisions, inputs }: RunState): RunRecord | undefined {
  return decisions === undefined ? undefined : { v: 1, agent, heard, decisions, inputs };
}

/** What a decision is made from, beside the state of the run. */
export interface DecisionFacts {
  readonly ended: readonly EndedCall[] | undefined;
  /** The ids of the jobs that the run has waited for. */
  readonly awaited: readonly string[];
  readonly used: UsedBudget | undefined;
  /** What the runs above leave it. */
  readonly above: BudgetLeft | undefined;
  readonly reports: readonly RunReport[];
}

/** The run after a decision, with what the decision depended on. */
export function withInput(
  run: RunState,
  { ended = [], awaited, used, above, reports }: DecisionFacts,
  tools: NotedTools,
): RunState {
  if (run.decisions === undefined) return run;
  const refused = ended.flatMap(({ jobId: id, error, isRefused }) =>
    isRefused && error ? [{ id, error }] : [],
  );
  const known = new Set(ended.map(({ jobId }) => jobId));
  const gone = awaited.filter((id) => !known.has(id));
  const facts = tools.facts();
  const isChanged = JSON.stringify(facts) !== JSON.stringify(lastTools(run.inputs));
  const input = {
    ...(used && { used }),
    ...(refused.length > 0 && { refused }),
    ...(gone.length > 0 && { gone }),
    ...(isChanged && { tools: facts }),
    ...(tools.bad.length > 0 && { badArguments: tools.bad }),
    ...(tools.faults.length > 0 && { faults: tools.faults }),
    ...(above && { above }),
    ...(reports.length > 0 && { reports }),
  };
  const n = run.decisions;
  const isPlain = Object.keys(input).length === 0;
  return { ...run, decisions: n + 1, inputs: isPlain ? run.inputs : [...run.inputs, { n, ...input }] };
}

export const lastTools = (inputs: readonly DecisionInput[]): readonly ToolFacts[] =>
  inputs.findLast(({ tools }) => tools)?.tools ?? [];

/** The tools of one decision: notes which arguments they did not accept. */
export class NotedTools {
  readonly offer: ToolOffer;
  readonly bad: BadArguments[] = [];
  readonly faults: NotedFault[] = [];
  readonly #tools: ToolOffer;

  constructor(tools: ToolOffer) {
    this.#tools = tools;
    this.offer = {
      ...tools,
      check: (tool, text) => {
        const checked = tools.check(tool, text);
        if (checked?.ok === false)
          this.bad.push({ tool, hash: argumentsHash(text), message: checked.message });
        return checked;
      },
      faultOf: (tool) => {
        const fault = tools.faultOf(tool);
        if (fault) this.faults.push({ tool, ...fault });
        return fault;
      },
    };
  }

  facts(): readonly ToolFacts[] {
    return this.#tools.definitions.map((definition) => factsOf(this.#tools, nameIn(definition)));
  }
}

/** The name in the definition of a tool in OpenAI's form. */
export const nameIn = (definition: object): string =>
  (definition as { readonly function: { readonly name: string } }).function.name;

export function factsOf(tools: ToolOffer, name: string): ToolFacts {
  const outputBytes = tools.outputBytesOf(name);
  const agent = tools.agentOf(name);
  return {
    name,
    effect: tools.effectOf(name),
    category: tools.categoryOf(name),
    timeoutMs: tools.timeoutOf(name),
    needsApproval: tools.needsApproval(name),
    backend: tools.placeOf(name).backend,
    ...(outputBytes !== undefined && { outputBytes }),
    ...(agent && { agent }),
  };
}

const HASH_CHARS = 16;

export const argumentsHash = (text: string): string => stableHash(text).slice(0, HASH_CHARS);

/** What is left of a budget of which so much was used. */
export const leftAfter = (budget: RunBudget, { tokens = 0, cost = 0, ms = 0 }: UsedBudget): BudgetLeft =>
  leftOf(budget, { budget: { tokens_used: tokens, cost_used: cost }, created_at: 0 }, ms);
