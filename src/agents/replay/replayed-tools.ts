/**
 * The tools of a run as its records tell them, for steps that are run again. None of them can be called: replay knows only
 * what steps ask about a tool before they ask for its call.
 */
import type { AgentDefinition } from '../../model/agent.ts';
import { OrchdError } from '../../model/errors.ts';
import type { ToolOffer } from '../run-state.ts';
import { parseArguments } from '../tools/arguments.ts';
import { argumentsHash, nameIn } from './decision-input.ts';
import { firstDifference } from './difference.ts';
import type { RecordedCall } from './recorded-run.ts';
import type { DecisionInput, ToolFacts } from './run-record.ts';

/** The definitions of the tools that models were told of, by name. */
export class ToldTools {
  readonly #definitions = new Map<string, object>();

  /** Returns whether the call tells of a tool that was not known, or in other words. */
  note({ payload }: RecordedCall): boolean {
    const { tools } = (payload ?? {}) as { readonly tools?: unknown };
    if (!Array.isArray(tools)) return false;
    let isNew = false;
    for (const definition of tools as object[]) {
      const known = this.#definitions.get(nameIn(definition));
      if (known && !firstDifference(known, definition, '')) continue;
      isNew = true;
      this.#definitions.set(nameIn(definition), definition);
    }
    return isNew;
  }

  /** A run may have had a tool without telling its model of it, in a run of one step for example. */
  of(name: string): object {
    return this.#definitions.get(name) ?? { type: 'function', function: { name } };
  }
}

export interface ReplayedTools {
  /** The agent whose steps are run. */
  readonly agent: AgentDefinition;
  /** The agent of the record. */
  readonly recorded: AgentDefinition;
  /** The tools that the run had at this decision. */
  readonly facts: readonly ToolFacts[];
  readonly input: DecisionInput | undefined;
  readonly told: ToldTools;
  /** Tools that the run did not have, and that the agent has. */
  readonly others: ToolOffer | undefined;
}

/** Throws INVALID_PARAMS for an agent with a tool that nobody knows. */
export function replayedTools({ agent, recorded, facts, input, told, others }: ReplayedTools): ToolOffer {
  const had = recorded.tools ?? [];
  const added = new Map(others?.definitions.map((definition) => [nameIn(definition), definition]));
  const factsOf = (name: string) => facts.find((each) => each.name === name);
  // A tool that the run had when it began, and had no more at this decision, is gone for a changed agent too.
  const names = (agent.tools ?? []).filter((name) => factsOf(name) || !had.includes(name));
  for (const name of names) if (!factsOf(name) && !added.has(name)) throw unknownTool(name);
  const bad = input?.badArguments ?? [];
  return {
    definitions: names.map((name) => (factsOf(name) ? told.of(name) : (added.get(name) as object))),
    check: (name, text) => {
      if (!names.includes(name)) return undefined;
      if (!factsOf(name)) return others?.check(name, text);
      const hash = bad.length > 0 ? argumentsHash(text) : '';
      const fault = bad.find((each) => each.tool === name && each.hash === hash);
      return fault ? { ok: false, message: fault.message } : parseArguments(text);
    },
    effectOf: (name) => factsOf(name)?.effect ?? others?.effectOf(name) ?? 'effectful',
    categoryOf: (name) => factsOf(name)?.category ?? others?.categoryOf(name) ?? 'other',
    timeoutOf: (name) => factsOf(name)?.timeoutMs ?? others?.timeoutOf(name) ?? 0,
    needsApproval: (name) => {
      if (agent.approve?.includes(name)) return true;
      const known = factsOf(name);
      if (!known) return others?.needsApproval(name) ?? true;
      // What the agent of the record alone has demanded is demanded no more.
      return known.needsApproval && !recorded.approve?.includes(name);
    },
    placeOf: (name) => {
      const backend = factsOf(name)?.backend;
      return backend === undefined ? (others?.placeOf(name) ?? { backend: 'function' }) : { backend };
    },
    agentOf: (name) => (factsOf(name) ? factsOf(name)?.agent : others?.agentOf(name)),
    faultOf: (name) => input?.faults?.find(({ tool }) => tool === name),
    outputBytesOf: (name) => factsOf(name)?.outputBytes ?? others?.outputBytesOf(name),
  };
}

const unknownTool = (name: string): OrchdError =>
  new OrchdError('INVALID_PARAMS', `the tool "${name}" is known neither to the run nor to this orchd`, {
    field: 'agent.tools',
  });
