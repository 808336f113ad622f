/** The section `governance`: what may be done in which mode (docs/governance.md). */
import { type Static, Type } from 'typebox';
import {
  CATEGORY,
  DEFAULT_MODES,
  type GovernancePolicy,
  JOB_KINDS,
  MODES,
  type Mode,
  type ModePolicy,
  TOOL_CATEGORIES,
  TRIGGER_METRICS,
  type Trigger,
  type TriggerMetric,
} from '../model/governance.ts';
import type { AgentConfig } from './agents.ts';
import type { Issue } from './issues.ts';
import { section } from './section.ts';

const optional = Type.Optional;
const NAME = '^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$';

const names = (expected: string) =>
  optional(
    Type.Array(Type.String({ minLength: 1, maxLength: 256 }), { minItems: 1, maxItems: 1000, expected }),
  );

const counts = optional(
  section(
    Object.fromEntries(
      JOB_KINDS.map((kind) => [kind, optional(Type.Integer({ minimum: 0, maximum: 1_000_000 }))]),
    ),
  ),
);

const ModeSchema = section({
  mode: Type.Enum([...MODES]),
  categories: optional(
    Type.Array(Type.String({ pattern: CATEGORY }), { maxItems: 100, expected: 'a list of categories' }),
  ),
  approve: names('a list of tools and categories'),
  running: counts,
  per_minute: counts,
  max_tokens: optional(Type.Integer({ minimum: 1, maximum: 10_000_000 })),
});
type WrittenMode = Static<typeof ModeSchema>;

const RuleSchema = section({
  name: Type.String({ pattern: NAME, expected: 'a name of letters, digits, _ and -' }),
  effect: Type.Enum(['deny', 'approve']),
  modes: optional(Type.Array(Type.Enum([...MODES]), { minItems: 1 })),
  tools: names('a list of tools; the last character may be *'),
  categories: names('a list of categories of tools'),
  agents: names('a list of agents'),
  types: names('a list of types of jobs'),
  models: names('a list of models'),
  tenants: names('a list of tenants'),
  critical: optional(Type.Boolean()),
  reason: optional(Type.String({ maxLength: 500 })),
});
export type WrittenRule = Static<typeof RuleSchema>;

const METRICS = Object.keys(TRIGGER_METRICS) as TriggerMetric[];

const TriggerSchema = section({
  name: Type.String({ pattern: NAME, expected: 'a name of letters, digits, _ and -' }),
  metric: Type.Enum([...METRICS]),
  above: Type.Number({ minimum: 0 }),
  for_ms: Type.Integer({ minimum: 0, maximum: 86_400_000 }),
  to: Type.Enum(['ALERT', 'DEGRADED', 'LOCKDOWN']),
});
export type WrittenTrigger = Static<typeof TriggerSchema>;

export const GovernanceSchema = section({
  shadow: Type.Boolean({ default: false }),
  modes: Type.Array(ModeSchema, {
    default: [],
    maxItems: MODES.length,
    expected: 'a list of modes, each with what it allows',
  }),
  rules: Type.Array(RuleSchema, {
    default: [],
    maxItems: 1000,
    expected: 'a list of rules, each with a name and an effect',
  }),
  triggers: Type.Array(TriggerSchema, {
    default: [],
    maxItems: 100,
    expected: 'a list of triggers, each with a name, a metric, above, for_ms and to',
  }),
});
type WrittenGovernance = Static<typeof GovernanceSchema>;

/** What contradicts itself in the section. */
export function governanceIssues({ modes, rules, triggers }: WrittenGovernance): Issue[] {
  const issue = (path: readonly string[], message: string): Issue => ({
    path: ['governance', ...path],
    message,
    at: 'value',
  });
  const ofModes = modes.flatMap(({ mode, categories, approve = [] }, at) => {
    if (modes.findIndex((other) => other.mode === mode) < at)
      return [issue(['modes', `[${at}]`, 'mode'], `the mode ${mode} is there twice`)];
    const useless = approve.filter((name) => isCategory(name) && categories?.includes(name) === false);
    return useless.map((name) =>
      issue(
        ['modes', `[${at}]`, 'approve'],
        `"${name}" can be approved, and is none of the categories of the mode`,
      ),
    );
  });
  const ofRules = rules.flatMap((rule, at) => {
    const path = ['rules', `[${at}]`];
    const earlier = rules.slice(0, at);
    if (earlier.some(({ name }) => name === rule.name))
      return [issue([...path, 'name'], `two rules have the name "${rule.name}"`)];
    if (rule.critical && rule.effect === 'approve')
      return [issue([...path, 'critical'], 'a rule that asks for approval cannot be critical')];
    const opposite = earlier.find(
      (other) => other.effect !== rule.effect && selectors(other) === selectors(rule),
    );
    return opposite
      ? [
          issue(
            [...path, 'effect'],
            `it contradicts the rule "${opposite.name}", which is about the same calls`,
          ),
        ]
      : [];
  });
  const ofTriggers = triggers.flatMap(({ name }, at) =>
    triggers.findIndex((other) => other.name === name) === at
      ? []
      : [issue(['triggers', `[${at}]`, 'name'], `two triggers have the name "${name}"`)],
  );
  return [...ofModes, ...ofRules, ...ofTriggers];
}

const isCategory = (name: string): boolean => (TOOL_CATEGORIES as readonly string[]).includes(name);

/** The same for rules that are about the same calls. */
function selectors({ modes, tools, categories, agents, types, models, tenants }: WrittenRule): string {
  const lists = [modes, tools, categories, agents, types, models, tenants];
  return JSON.stringify(lists.map((list) => list && [...list].sort()));
}

function modePolicy(written: WrittenMode): ModePolicy {
  const { categories, approve, running, per_minute: perMinute, max_tokens: maxTokens } = written;
  return { categories, approve, running, perMinute, maxTokens };
}

export interface ResolvedGovernance {
  readonly policy: GovernancePolicy;
  readonly triggers: readonly Trigger[];
}

/** A mode that is written replaces the default of that mode as a whole. */
export function governanceOf(
  { shadow, modes, rules, triggers }: WrittenGovernance,
  agents: readonly AgentConfig[],
): ResolvedGovernance {
  const policies = MODES.map((mode: Mode): [Mode, ModePolicy] => {
    const written = modes.find((each) => each.mode === mode);
    return [mode, written ? modePolicy(written) : DEFAULT_MODES[mode]];
  });
  const rights = agents.flatMap(({ name: agent, categories }) => (categories ? [{ agent, categories }] : []));
  return {
    policy: {
      shadow,
      modes: Object.fromEntries(policies) as Record<Mode, ModePolicy>,
      rules,
      rights,
    },
    triggers: triggers.map(({ name, metric, above, for_ms: forMs, to }) => ({
      name,
      metric,
      above,
      forMs,
      to,
    })),
  };
}
