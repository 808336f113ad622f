/** The mode that is in force, and the gate that every job passes. */
import {
  DEFAULT_POLICY,
  GOVERNANCE_ID,
  type GovernancePolicy,
  type GovernanceRecord,
  JOB_KINDS,
  type JobKind,
  jobKindOf,
  type Mode,
  type ModePolicy,
  NORMAL,
} from '../../model/governance.ts';
import type { LimitSpec } from '../../model/limit-records.ts';
import { scopes } from '../limits/limit.ts';
import { GovernanceGate } from './gate.ts';

/** Where the record is read: a table of the state. */
interface ModeTable {
  get(id: string): GovernanceRecord | undefined;
}

export class Governance {
  readonly gate: GovernanceGate;
  readonly #table: ModeTable;

  constructor(policy: GovernancePolicy | undefined, table: ModeTable) {
    this.gate = new GovernanceGate(policy ?? DEFAULT_POLICY);
    this.#table = table;
  }

  /** As if the mode was NORMAL since ever, where nobody has changed it. */
  get record(): GovernanceRecord {
    return this.#table.get(GOVERNANCE_ID) ?? NORMAL;
  }

  get mode(): Mode {
    return this.record.mode;
  }

  get policy(): ModePolicy {
    return this.gate.modePolicy(this.mode);
  }

  /** Whether every job is allowed now, so that nobody need look at it. */
  get isOpen(): boolean {
    return this.gate.isOpen(this.mode);
  }
}

/** The longest answer that the present mode allows a job; undefined without a bound, and for jobs that ask no model. */
export const mostTokens = (
  { policy }: Pick<Governance, 'policy'>,
  spec: Parameters<typeof jobKindOf>[0],
): number | undefined =>
  policy.maxTokens !== undefined && jobKindOf(spec) === 'models' ? policy.maxTokens : undefined;

/** Whether the present mode lets no job of this kind start, now or later. */
export const startsNone = ({ policy }: Pick<Governance, 'policy'>, kind: JobKind): boolean =>
  policy.running?.[kind] === 0 || policy.perMinute?.[kind] === 0;

/** The limits of the present mode: how many attempts of each kind run at once, and start in a minute. */
export function modeLimits({ policy }: Pick<Governance, 'policy'>): readonly LimitSpec[] {
  const { running = {}, perMinute = {} } = policy;
  return JOB_KINDS.flatMap((kind) => {
    const limit = { scope: scopes.mode(kind), running: running[kind], perMinute: perMinute[kind] };
    return limit.running === undefined && limit.perMinute === undefined ? [] : [limit];
  });
}
