/**
 * The policy at run time: gates, limits, and how many workers there are. Each change is one record with who and why, beside
 * what was in force before, so that one call undoes it.
 *
 * P1  Values and limits of one change are one commit.
 * P2  An undo is a change like any other: a second one brings back what the first has undone.
 */
import { OrchdError } from '../../model/errors.ts';
import type { LimitSpec } from '../../model/limit-records.ts';
import {
  gatesFault,
  NO_POLICY,
  POLICY_ID,
  type PolicyRecord,
  type PolicyValues,
  type PolicyVersion,
} from '../../model/policy.ts';
import { DEFAULT_TENANT } from '../../model/records.ts';
import { limitsOf, setLimits } from '../admission/quota.ts';
import { type EngineSettings, settingsWith } from '../settings.ts';
import type { Turn } from '../turn.ts';

export interface PolicyOrder {
  readonly values: PolicyValues;
  /** They replace all limits of the operator; undefined leaves them. */
  readonly limits: readonly LimitSpec[] | undefined;
  readonly by: string;
  readonly why: string;
  /** Without it, a policy that lets nothing run is refused. */
  readonly force: boolean;
}

type PolicyTables = Pick<Turn, 'state'>;

/** What is in force, by whom and why. */
export const policyOf = ({ state }: PolicyTables): PolicyVersion | PolicyRecord =>
  state.tables.policy.get(POLICY_ID) ?? NO_POLICY;

export function setPolicy(
  turn: Turn,
  { values, limits, by, why, force }: PolicyOrder,
  configured: EngineSettings,
): PolicyRecord {
  checkPolicy(settingsWith(configured, values), limits, force);
  const former = limitsOf(turn, DEFAULT_TENANT);
  if (limits) setLimits(turn, DEFAULT_TENANT, limits, by);
  return put(turn, { by, why, values }, limits && { before: former, after: limits });
}

/** Puts back what was in force before the last change. Throws ILLEGAL_STATE if there was none. */
export function undoPolicy(turn: Turn, by: string, why: string): PolicyRecord {
  const record = turn.state.tables.policy.get(POLICY_ID);
  if (!record) throw new OrchdError('ILLEGAL_STATE', 'nobody has set a policy: there is nothing to undo');
  const { before, limits } = record;
  if (limits && !isSame(limitsOf(turn, DEFAULT_TENANT), limits.after)) {
    const message =
      'the limits were set again since the policy was: set them with PUT /v2/limits, or set a policy';
    throw new OrchdError('ILLEGAL_STATE', message);
  }
  if (limits) setLimits(turn, DEFAULT_TENANT, limits.before, by);
  const values = before.values;
  return put(turn, { by, why, values }, limits && { before: limits.after, after: limits.before });
}

const isSame = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);

function put(turn: Turn, version: Omit<PolicyVersion, 'at'>, limits: PolicyRecord['limits']): PolicyRecord {
  const { by, why, at, values } = policyOf(turn);
  const record: PolicyRecord = {
    v: 1,
    ...version,
    at: turn.now,
    before: { by, why, at, values },
    ...(limits && { limits }),
  };
  turn.put('policy', POLICY_ID, record, { is: 'set', by: version.by });
  return record;
}

/** Throws INVALID_PARAMS for a policy that contradicts itself, or that lets nothing run and is not forced. */
export function checkPolicy(
  { gates, pools }: EngineSettings,
  limits: readonly LimitSpec[] | undefined,
  force: boolean,
): void {
  const fault = gates && gatesFault(gates);
  if (fault) throw refuse(`gates.${fault.field}`, `gates.${fault.field} ${fault.message}`);
  const { minWarmWorkersPerPool: min, maxTotalWorkers: max } = pools;
  if (min > max) {
    const message = `each worker pool would have at least ${min} workers, and all together at most ${max}`;
    throw refuse('min_warm_workers_per_pool', message);
  }
  if (force) return;
  const stop = limits?.find(stopsAll);
  const what = stop ? `a limit of 0 for "${stop.scope}"` : max === 0 ? 'max_total_workers 0' : undefined;
  if (what) throw refuse('force', `with ${what} nothing starts any more: say "force" if that is meant`);
}

const refuse = (field: string, message: string): OrchdError =>
  new OrchdError('INVALID_PARAMS', message, { field });

/** Every job is in one of these scopes. */
const EVERYONE: ReadonlySet<string> = new Set(['global', 'tenant:*', 'agent:*', 'token:*']);

const stopsAll = ({ scope, running }: LimitSpec): boolean => EVERYONE.has(scope) && running === 0;
