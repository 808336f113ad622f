/**
 * The gate that every job passes twice: at its admission and again at each claim. It is pure: the rules, the mode and the
 * job decide, and nothing else (docs/decisions/0039).
 *
 * G1  Deny wins: over an approval that is asked for, and over one that was given.
 * G2  A call has at most the rights of every agent above it.
 * G3  What the gate does not know it denies: a call of a tool of which nobody says what it does, and one below an agent that
 *     is gone, of which nobody says what those below it may do.
 */
import {
  type GovernancePolicy,
  type GovernanceRule,
  isListed,
  type Mode,
  type ModePolicy,
} from '../../model/governance.ts';
import { RUN_TYPE } from '../../model/run-jobs.ts';
import { type GovernedJob, type GovernedTool, type Verdict, Verdicts } from './verdicts.ts';

export const ALLOWED: Verdict = { is: 'allow' };

const deny = (rule: string, message: string, isCritical = false): Verdict => ({
  is: 'deny',
  rule,
  message,
  isCritical,
});

const MAX_CANDIDATES = 1000;

export class GovernanceGate {
  readonly #policy: GovernancePolicy;
  /** The modes in which nothing can be denied. */
  readonly #open: ReadonlySet<Mode>;
  readonly #rights: ReadonlyMap<string, readonly string[]>;
  readonly #agents: ReadonlySet<string> | undefined;
  readonly #verdicts = new Verdicts();
  /** By type, tenant and tool of jobs: there are few, and many jobs of each. */
  readonly #candidates = new Map<string, readonly GovernanceRule[]>();

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
    return this.#verdicts.of(mode, job, () => this.#decide(mode, job));
  }

  #decide(mode: Mode, job: GovernedJob): Verdict {
    const { tool } = job;
    const broken = tool && this.#brokenRight(mode, job, tool);
    if (broken) return broken;
    let approval: GovernanceRule | undefined;
    for (const rule of this.#rulesFor(mode, job)) {
      if (!isAbout(rule, job)) continue;
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

  /** The rules that may be about jobs of this type and tool, whatever their models and agents are. */
  #rulesFor(mode: Mode, job: GovernedJob): readonly GovernanceRule[] {
    const { type, tenant, tool } = job;
    const key = `${mode}\n${type}\n${tenant}\n${tool ? `${tool.name}\n${tool.category ?? ''}` : ''}`;
    const known = this.#candidates.get(key);
    if (known) return known;
    const rules = this.#policy.rules.filter((rule) => mayBeAbout(rule, mode, job));
    if (this.#candidates.size >= MAX_CANDIDATES) this.#candidates.clear();
    this.#candidates.set(key, rules);
    return rules;
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

const mayBeAbout = (
  { modes, tools, categories, types, tenants }: GovernanceRule,
  mode: Mode,
  { type, tenant, tool }: GovernedJob,
): boolean =>
  (!modes || modes.includes(mode)) &&
  (!types || isListed(types, type)) &&
  (!tools || isListed(tools, tool?.name)) &&
  (!categories || isListed(categories, tool?.category)) &&
  (!tenants || isListed(tenants, tenant));

const isAbout = (
  { models, agents: named }: GovernanceRule,
  { type, model, otherNames, agents }: GovernedJob,
): boolean =>
  // A call that names no model gets any: only a rule about all of them is about it.
  (!models ||
    isListed(models, model ?? (type === 'inference' ? '' : undefined)) ||
    otherNames?.some((name) => isListed(models, name)) === true) &&
  (!named || agents.some((agent) => isListed(named, agent)));
