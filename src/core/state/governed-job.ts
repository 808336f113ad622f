/** What the rules of governance say of a job: it is asked at admission and at every claim. */
import type { JobSpec } from '../../model/job-spec.ts';
import { type AskRecord, uidOf } from '../../model/records.ts';
import { AGENT_CATEGORY, APPROVED_TAG, RUN_TYPE, TOOL_TYPE } from '../../model/run-jobs.ts';
import { ALLOWED, type GovernedJob, type GovernedTool, type Verdict } from '../governance/gate.ts';
import type { State } from './state.ts';

export type GovernedAsk = Pick<AskRecord, 'tenant' | 'spec'> &
  Partial<Pick<AskRecord, 'ancestors' | 'route' | 'agentsAbove'>>;

/** `model`: the one that the job needs now, which its route may have changed. */
export function judgeJob(state: State, ask: GovernedAsk, model: string | undefined): Verdict {
  const { gate, mode } = state.governance;
  return isOpenTo(state, ask.spec) ? ALLOWED : gate.judge(mode, governedJob(state, ask, model));
}

/** Whether the job is allowed now whatever is above it, so that nobody need look at it. */
export const isOpenTo = ({ governance: { isOpen, gate } }: State, spec: JobSpec): boolean =>
  isOpen && !(gate.knowsAgents && isCall(spec));

/** Whether the job may be a call of an agent: a tool, or a run below another job. */
const isCall = ({ type, parent_id: parent }: JobSpec): boolean =>
  type === TOOL_TYPE || (type === RUN_TYPE && parent !== undefined);

function governedJob(state: State, ask: GovernedAsk, model: string | undefined): GovernedJob {
  const { tenant, spec } = ask;
  return {
    type: spec.type,
    tenant,
    model,
    otherNames: otherNames(state, ask, model),
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

/** The aliases and the exact reference of a model of the catalog, and the name of the job's route. */
function otherNames(
  { catalog }: State,
  { route }: GovernedAsk,
  model: string | undefined,
): string[] | undefined {
  const known = model === undefined ? undefined : catalog.find(model);
  if (!known) return route === undefined ? undefined : [route];
  return [...known.aliases, known.ref, ...(route === undefined ? [] : [route])];
}

/** The agents of the runs above the job, and its own if it is a run. */
function agentsOf(state: State, ask: GovernedAsk): readonly string[] {
  const above = ask.agentsAbove ?? agentsAbove(state, ask);
  return ask.spec.type === RUN_TYPE ? [...above, ask.spec.agent] : above;
}

/** The agents of the runs above a job, from the top down; of runs that have left memory as far as a job below them names them. */
export function agentsAbove(
  { jobs }: State,
  { tenant, ancestors = [] }: Pick<GovernedAsk, 'tenant' | 'ancestors'>,
): readonly string[] {
  let names: readonly string[] = [];
  for (const id of ancestors) {
    const above = jobs.get(uidOf(tenant, id))?.ask;
    if (above?.agentsAbove) names = [...new Set([...names, ...above.agentsAbove])];
    if (above?.spec.type === RUN_TYPE) names = [...names, above.spec.agent];
  }
  return names;
}

/** Only runs make jobs of type TOOL_TYPE, so that their tags can be trusted; of runs see runtime/prepare.ts. */
const toolIn = (tags: Readonly<Record<string, string>> = {}): GovernedTool => ({
  name: tags['tool'] ?? '',
  category: tags['category'],
  isApproved: tags['approved'] === 'yes',
});
