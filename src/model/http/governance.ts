/** Schemas of governance: the mode, the rules and the broken ones. */
import { Type } from 'typebox';
import { JOB_KINDS, MODES } from '../governance.ts';
import { answerObject, instant, requestObject, type Shape } from './shape.ts';

const optional = Type.Optional;
const ModeName = Type.Enum([...MODES], { title: 'Mode' });
const names = optional(Type.Array(Type.String()));
const counts = optional(
  Type.Object(Object.fromEntries(JOB_KINDS.map((kind) => [kind, optional(Type.Integer())]))),
);

export const SetMode = requestObject({
  mode: ModeName,
  why: Type.String({
    minLength: 1,
    maxLength: 500,
    description: 'The reason, which everybody who waits is told',
  }),
});
export type ModeRequest = Shape<typeof SetMode>;

const ViolationView = answerObject('Violation', {
  at: instant('When it was'),
  job_id: Type.String(),
  tenant: Type.String(),
  rule: Type.String({ description: 'rule:NAME, mode:MODE or rights:AGENT' }),
  tool: optional(Type.String()),
  critical: Type.Boolean(),
  shadow: Type.Boolean({ description: 'The rules were not in force: the job went on' }),
});

const ModeRules = answerObject('ModeRules', {
  categories: names,
  approve: names,
  running: counts,
  per_minute: counts,
  max_tokens: optional(Type.Integer()),
});

const RuleView = answerObject('GovernanceRule', {
  name: Type.String(),
  effect: Type.Enum(['deny', 'approve']),
  modes: optional(Type.Array(ModeName)),
  tools: names,
  categories: names,
  agents: names,
  types: names,
  models: names,
  tenants: names,
  critical: optional(Type.Boolean()),
  reason: optional(Type.String()),
});

export const GovernanceView = answerObject('Governance', {
  mode: ModeName,
  since: instant('When the mode was set; 0 for one that nobody has set'),
  by: Type.String({ description: 'A person, trigger:NAME or rule:NAME' }),
  why: Type.String(),
  next: Type.Array(ModeName, { description: 'The modes that a person may set now' }),
  shadow: Type.Boolean({ description: 'What would be denied is noted, and nothing is denied' }),
  allows: ModeRules,
  rules: Type.Array(RuleView),
  violations: Type.Integer({ description: 'Broken rules since ever' }),
  last_violations: Type.Array(ViolationView),
});
export type GovernanceView = Shape<typeof GovernanceView>;
