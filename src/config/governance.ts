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
  TRIGGER_METRICS,
  type Trigger,
  type TriggerMetric,
} from '../model/governance.ts';
import type { AgentConfig } from './agents.ts';
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
export type WrittenMode = Static<typeof ModeSchema>;

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
export type WrittenGovernance = Static<typeof GovernanceSchema>;

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
      agents: agents.map(({ name }) => name),
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
