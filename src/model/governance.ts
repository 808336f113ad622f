/**
 * Governance: what may be done in which mode. The rules are data of the configuration; the mode is a record, so that it
 * survives restarts and changes of leader (docs/governance.md).
 */
import { APPROVAL_TYPE, RUN_TYPE, TOOL_TYPE } from './run-jobs.ts';

export const MODES = ['NORMAL', 'ALERT', 'DEGRADED', 'LOCKDOWN', 'RECOVERY'] as const;
export type Mode = (typeof MODES)[number];

/** What every mode is for, in the words of the documentation. */
export const MODE_MEANINGS: Readonly<Record<Mode, string>> = {
  NORMAL: 'everything that the rules allow',
  ALERT: 'something is wrong: people look at it, and effects may need their approval',
  DEGRADED: 'only what does no harm',
  LOCKDOWN: 'nothing starts',
  RECOVERY: 'a person tries whether all is well again',
};

/** The modes that a person may set, by the present one. */
export const MOVES: Readonly<Record<Mode, readonly Mode[]>> = {
  NORMAL: ['ALERT', 'DEGRADED', 'LOCKDOWN'],
  ALERT: ['NORMAL', 'DEGRADED', 'LOCKDOWN'],
  DEGRADED: ['RECOVERY', 'LOCKDOWN'],
  LOCKDOWN: ['RECOVERY'],
  RECOVERY: ['NORMAL', 'LOCKDOWN'],
};

/** The modes that a trigger or a violation may set: the way back is for people alone. */
export const ESCALATIONS: Readonly<Record<Mode, readonly Mode[]>> = {
  NORMAL: ['ALERT', 'DEGRADED', 'LOCKDOWN'],
  ALERT: ['DEGRADED', 'LOCKDOWN'],
  DEGRADED: ['LOCKDOWN'],
  LOCKDOWN: [],
  RECOVERY: ['LOCKDOWN'],
};

/** What a tool does, as rules name it. Tools of the embedding program may have categories of their own. */
export const TOOL_CATEGORIES = ['read', 'write', 'network', 'command', 'agent', 'mcp', 'other'] as const;

/** The pattern of a category's name. */
export const CATEGORY = '^[a-z][a-z0-9_-]{0,31}$';

/** The kinds of jobs whose starts a mode limits. A job of another kind is an `other`; one that asks a person is of none. */
export const JOB_KINDS = ['runs', 'models', 'tools', 'others'] as const;
export type JobKind = (typeof JOB_KINDS)[number];

/** Undefined for a job that does nothing but ask a person. */
export function jobKindOf({
  type,
  model,
}: {
  readonly type: string;
  readonly model?: string | undefined;
}): JobKind | undefined {
  if (type === RUN_TYPE) return 'runs';
  if (type === TOOL_TYPE) return 'tools';
  if (type === APPROVAL_TYPE) return undefined;
  return model !== undefined || type === 'inference' ? 'models' : 'others';
}

/** What a mode allows; what is absent is not limited. */
export interface ModePolicy {
  /** The categories of tools that may be called. */
  readonly categories?: readonly string[] | undefined;
  /** Tools, and categories of tools, that a person must allow at each call. */
  readonly approve?: readonly string[] | undefined;
  /** Attempts that run at once. */
  readonly running?: Readonly<Partial<Record<JobKind, number>>> | undefined;
  /** Attempts that start in a minute. */
  readonly perMinute?: Readonly<Partial<Record<JobKind, number>>> | undefined;
  /** The most tokens that one answer of a model may have. */
  readonly maxTokens?: number | undefined;
}

/** A rule about jobs. Of each list, one entry must match, at its end with `*`; an absent list matches everything. */
export interface GovernanceRule {
  readonly name: string;
  readonly effect: 'deny' | 'approve';
  readonly modes?: readonly Mode[];
  readonly tools?: readonly string[];
  readonly categories?: readonly string[];
  /** Agents of which one made the call, or stands above the one that did. */
  readonly agents?: readonly string[];
  readonly types?: readonly string[];
  readonly models?: readonly string[];
  readonly tenants?: readonly string[];
  /** Whoever breaks this rule is stopped, and the mode is LOCKDOWN. */
  readonly critical?: boolean;
  /** For people and models: why it is forbidden. */
  readonly reason?: string;
}

/** Whether `list`, a list of names in a rule, has `name`. An entry that ends with `*` stands for all names that begin so. */
export const isListed = (list: readonly string[], name: string | undefined): boolean =>
  name !== undefined &&
  list.some((entry) => (entry.endsWith('*') ? name.startsWith(entry.slice(0, -1)) : entry === name));

export interface AgentRights {
  readonly agent: string;
  readonly categories: readonly string[];
}

export interface GovernancePolicy {
  /** What would have been denied is noted, and nothing is denied. */
  readonly shadow: boolean;
  readonly modes: Readonly<Record<Mode, ModePolicy>>;
  readonly rules: readonly GovernanceRule[];
  /** The categories of tools that an agent, and every agent below it, may call; an agent that is not listed may call all. */
  readonly rights: readonly AgentRights[];
  /** The agents that there are: what is below any other has no rights to calls. Not checked where it is absent. */
  readonly agents?: readonly string[] | undefined;
}

/** The id of the only record of kind `governance`. */
export const GOVERNANCE_ID = 'mode';

/** A call that was denied, or would have been. */
export interface Violation {
  readonly at: number;
  readonly job: string;
  readonly tenant: string;
  readonly rule: string;
  readonly tool?: string | undefined;
  readonly isCritical: boolean;
  /** The rules were not in force: the job went on. */
  readonly isShadow: boolean;
}

export interface GovernanceRecord {
  readonly v: 1;
  readonly mode: Mode;
  readonly since: number;
  /** A person, `trigger:<name>` or `rule:<name>`. */
  readonly by: string;
  readonly why: string;
  readonly violations: number;
  /** The last ones, the latest last. */
  readonly last: readonly Violation[];
  /** Trees in which a critical rule was broken, and of which some jobs are still to be cancelled. */
  readonly stopping?: readonly StoppedTree[];
}

export interface StoppedTree {
  /** The uid of the job at the top, which may have left memory. */
  readonly root: string;
  readonly rule: string;
}

/** Violations that the record keeps; the audit has them all. */
export const KEPT_VIOLATIONS = 10;

export const NORMAL: GovernanceRecord = {
  v: 1,
  mode: 'NORMAL',
  since: 0,
  by: 'start',
  why: '',
  violations: 0,
  last: [],
};

/** What the modes allow where the configuration says nothing else. */
export const DEFAULT_MODES: Readonly<Record<Mode, ModePolicy>> = {
  NORMAL: {},
  ALERT: { approve: ['write', 'command', 'mcp', 'other'] },
  DEGRADED: { categories: ['read'] },
  LOCKDOWN: { running: { runs: 0, models: 0, tools: 0, others: 0 } },
  RECOVERY: { categories: ['read'], running: { runs: 2, models: 2, tools: 2 } },
};

export const DEFAULT_POLICY: GovernancePolicy = {
  shadow: false,
  modes: DEFAULT_MODES,
  rules: [],
  rights: [],
};

/** What triggers are about, and what each number is. */
export const TRIGGER_METRICS = {
  tool_error_rate: 'the share of calls of tools that failed in the last minute, from 0 to 1',
  model_error_rate: 'the share of calls of models that failed in the last minute, from 0 to 1',
  cost_per_minute: 'what was spent in the last minute, in millionths of the currency',
  violations_per_minute: 'broken rules in the last minute',
  loop_delay_ms: 'the longest delay of the event loop in the last second',
  queued_jobs: 'jobs that wait',
} as const;
export type TriggerMetric = keyof typeof TRIGGER_METRICS;

/** Changes the mode once `metric` has been above `above` for `forMs` without a break. */
export interface Trigger {
  readonly name: string;
  readonly metric: TriggerMetric;
  readonly above: number;
  readonly forMs: number;
  readonly to: Mode;
}
