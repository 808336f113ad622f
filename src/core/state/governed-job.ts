/** What the rules of governance say of a job: it is asked at admission and at every claim. */
import { jobKindOf } from '../../model/governance.ts';
import { type AskRecord, uidOf } from '../../model/records.ts';
import { ABOVE_TAGS, AGENT_CATEGORY, APPROVED_TAG, RUN_TYPE, TOOL_TYPE } from '../../model/run-jobs.ts';
import { ALLOWED, type GovernedJob, type GovernedTool, type Verdict } from '../governance/gate.ts';
import type { State } from './state.ts';

export type GovernedAsk = Pick<AskRecord, 'tenant' | 'spec'> &
  Partial<Pick<AskRecord, 'ancestors' | 'maxOutput'>>;

/** `model`: the one that the job needs now, which its route may have changed. */
export function judgeJob(state: State, ask: GovernedAsk, model: string | undefined): Verdict {
  const { gate, mode, isOpen } = state.governance;
  return isOpen ? ALLOWED : gate.judge(mode, governedJob(state, ask, model));
}

function governedJob(state: State, ask: GovernedAsk, model: string | undefined): GovernedJob {
  const { tenant, spec } = ask;
  const isModel = jobKindOf(spec) === 'models';
  return {
    type: spec.type,
    tenant,
    model,
    // An answer without a bound may have any number of tokens.
    maxTokens: isModel ? (ask.maxOutput ?? Number.POSITIVE_INFINITY) : undefined,
    agents: agentsOf(state, ask),
    tool: toolOf(state, ask),
  };
}

/** What a call does, for the rules. A run below another one is a call of its agent. */
function toolOf(state: State, ask: GovernedAsk): GovernedTool | undefined {
  const { spec } = ask;
  if (spec.type === TOOL_TYPE) return toolIn(spec.tags);
  if (spec.type !== RUN_TYPE || parentOf(state, ask)?.type !== RUN_TYPE) return undefined;
  return { name: spec.agent, category: AGENT_CATEGORY, isApproved: spec.tags?.[APPROVED_TAG] === 'yes' };
}

const parentOf = ({ jobs }: State, { tenant, ancestors = [] }: GovernedAsk) =>
  jobs.get(uidOf(tenant, ancestors.at(-1) ?? ''))?.ask.spec;

/**
 * The agents of the runs above the job, from the top down, and its own if it is a run. The runs above one that works in
 * the background may have left memory: its tags name their agents.
 */
function agentsOf({ jobs }: State, { tenant, spec, ancestors = [] }: GovernedAsk): string[] {
  const agents = ancestors.flatMap((id) => {
    const above = jobs.get(uidOf(tenant, id))?.ask.spec;
    return above?.type === RUN_TYPE ? [...agentsAbove(above.tags), above.agent] : [];
  });
  if (spec.type === RUN_TYPE) agents.push(...agentsAbove(spec.tags), spec.agent);
  return agents;
}

function agentsAbove(tags: Readonly<Record<string, string>> | undefined): string[] {
  if (!tags) return [];
  return Object.entries(tags).flatMap(([name, agent]) => (name.startsWith(ABOVE_TAGS) ? [agent] : []));
}

/** Only runs make jobs of type TOOL_TYPE, so that their tags can be trusted; of runs see runtime/prepare.ts. */
const toolIn = (tags: Readonly<Record<string, string>> = {}): GovernedTool => ({
  name: tags['tool'] ?? '',
  category: tags['category'],
  isApproved: tags['approved'] === 'yes',
});
