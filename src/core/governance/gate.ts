/**
 * The gate that every job passes twice: at its admission and again at each claim. It is pure: the rules, the mode and the
 * job decide, and nothing else (docs/decisions/0039).
 *
 * G1  Deny wins: over an approval that is asked for, and over one that was given.
 * G2  A call has at most the rights of every agent above it.
 * G3  What the gate does not know it denies: a call of a tool of which nobody says what it does, and one below an agent that
 *     is gone, of which nobody says what those below it may do.
 */
import type { GovernancePolicy, GovernanceRule, Mode, ModePolicy } from '../../model/governance.ts';
import { RUN_TYPE } from '../../model/run-jobs.ts';

/** A job as the rules see it. */
export interface GovernedJob {
  readonly type: string;
  readonly tenant: string;
  readonly model: string | undefined;
  /** What else the model is called, and the route that has chosen it: a rule may name any of them. */
  readonly otherNames?: readonly string[] | undefined;
  /** The agents of the runs above the job, and its own if it is a run. */
  readonly agents: readonly string[];
  /** Set for calls of tools alone. */
  readonly tool?: GovernedTool | undefined;
}

export interface GovernedTool {
  readonly name: string;
  readonly category: string | undefined;
  /** A person has allowed this call. */
  readonly isApproved: boolean;
}

export type Verdict =
  | { readonly is: 'allow' }
  | { readonly is: 'deny'; readonly rule: string; readonly message: string; readonly isCritical: boolean }
  | { readonly is: 'approve'; readonly rule: string; readonly message: string };

export const ALLOWED: Verdict = { is: 'allow' };

const deny = (rule: string, message: string, isCritical = false): Verdict => ({
  is: 'deny',
  rule,
  message,
  isCritical,
});

/** Verdicts that are remembered: the same agents call the same tools again and again. */
const MAX_KNOWN = 10_000;

export class GovernanceGate {
  readonly #policy: GovernancePolicy;
  /** The modes in which nothing can be denied. */
  readonly #open: ReadonlySet<Mode>;
  readonly #rights: ReadonlyMap<string, readonly string[]>;
  readonly #agents: ReadonlySet<string> | undefined;
  readonly #known = new Map<string, Verdict>();

  constructor(policy: GovernancePolicy) {
    this.#policy = policy;
    this.#rights = new Map(policy.rights.map(({ agent, categories }) => [agent, categories]));
    this.#agents = policy.agents && new Set(policy.agents);
    const isOpen = ({ categories, approve }: ModePolicy): boolean =>
      categories === undefined && approve === undefined;
    const hasRules = policy.rules.length > 0 || policy.rights.length > 0;
    const modes = Object.entries(policy.modes) as [Mode, ModePolicy][];
    this.#open = new Set(hasRules ? [] : modes.flatMap(([mode, of]) => (isOpen(of) ? [mode] : [])));
  }

  get knowsAgents(): boolean {
    return this.#agents !== undefined;
  }

  get isShadow(): boolean {
    return this.#policy.shadow;
  }

  get rules(): readonly GovernanceRule[] {
    return this.#policy.rules;
  }

  /** Whether every job is allowed in this mode, so that nobody need look at it; but for calls, if their agents are known (G3). */
  isOpen(mode: Mode): boolean {
    return this.#open.has(mode);
  }

  modePolicy(mode: Mode): ModePolicy {
    return this.#policy.modes[mode];
  }

  judge(mode: Mode, job: GovernedJob): Verdict {
    const key = keyOf(mode, job);
    const known = this.#known.get(key);
    if (known) return known;
    const verdict = this.#decide(mode, job);
    if (this.#known.size >= MAX_KNOWN) this.#known.clear();
    this.#known.set(key, verdict);
    return verdict;
  }

  #decide(mode: Mode, job: GovernedJob): Verdict {
    const { tool } = job;
    const broken = tool && this.#brokenRight(mode, job, tool);
    if (broken) return broken;
    let approval: GovernanceRule | undefined;
    for (const rule of this.#policy.rules) {
      if (!matches(rule, mode, job)) continue;
      if (rule.effect === 'deny') return deny(`rule:${rule.name}`, textOf(rule, 'forbids it'), rule.critical);
      approval ??= rule;
    }
    if (!tool || tool.isApproved) return ALLOWED;
    if (approval)
      return { is: 'approve', rule: `rule:${approval.name}`, message: textOf(approval, 'asks for approval') };
    const { approve = [] } = this.#policy.modes[mode];
    if (!approve.includes(tool.name) && !approve.includes(tool.category ?? '')) return ALLOWED;
    return { is: 'approve', rule: `mode:${mode}`, message: `in the mode ${mode} a person must allow it` };
  }

  /** G2, G3. */
  #brokenRight(mode: Mode, { type, agents }: GovernedJob, { category }: GovernedTool): Verdict | undefined {
    // A run that is a call of its agent needs the rights of those who call it.
    const callers = type === RUN_TYPE ? agents.slice(0, -1) : agents;
    const gone = this.#agents && callers.find((agent) => !this.#agents?.has(agent));
    if (gone !== undefined)
      return deny(
        `rights:${gone}`,
        `there is no agent "${gone}" any more, so those below it may call nothing`,
      );
    if (this.isOpen(mode)) return undefined;
    if (category === undefined) return deny('category', 'it is not known what the tool does');
    const { categories } = this.#policy.modes[mode];
    if (categories && !categories.includes(category))
      return deny(`mode:${mode}`, `in the mode ${mode} no tools of the category "${category}" are called`);
    for (const agent of callers) {
      const rights = this.#rights.get(agent);
      if (!rights || rights.includes(category)) continue;
      const message = `the agent "${agent}" may call no tools of the category "${category}", nor may those below it`;
      return deny(`rights:${agent}`, message);
    }
    return undefined;
  }
}

const textOf = ({ name, reason }: GovernanceRule, what: string): string =>
  reason === undefined ? `the rule "${name}" ${what}` : `the rule "${name}" ${what}: ${reason}`;

const keyOf = (mode: Mode, { type, tenant, model, otherNames, agents, tool }: GovernedJob): string =>
  `${mode}\n${type}\n${tenant}\n${model ?? ''}\n${otherNames?.join('\t') ?? ''}\n${agents.join('\t')}\n${
    tool ? `${tool.name}\n${tool.category ?? ''}\n${tool.isApproved}` : ''
  }`;

function matches(rule: GovernanceRule, mode: Mode, job: GovernedJob): boolean {
  const { modes, tools, categories, agents, types, models, tenants } = rule;
  return (
    (!modes || modes.includes(mode)) &&
    (!types || isListed(types, job.type)) &&
    (!tools || isListed(tools, job.tool?.name)) &&
    (!categories || isListed(categories, job.tool?.category)) &&
    (!models ||
      isListed(models, job.model) ||
      job.otherNames?.some((name) => isListed(models, name)) === true) &&
    (!tenants || isListed(tenants, job.tenant)) &&
    (!agents || job.agents.some((agent) => isListed(agents, agent)))
  );
}

const isListed = (list: readonly string[], name: string | undefined): boolean =>
  name !== undefined &&
  list.some((entry) => (entry.endsWith('*') ? name.startsWith(entry.slice(0, -1)) : entry === name));
