/** Events of sessions, and of the limits that callers share. */
import { DEFAULT_TENANT, type LimitSpec } from '../../model/records.ts';
import { setLimits } from '../admission/quota.ts';
import { forgetSession, setBudget } from '../admission/session.ts';
import { cancelOne } from '../attempts/operator-commands.ts';
import { type Handlers, mayRefuse, needsDiskSpace } from './handler.ts';

export type SessionEvent =
  | {
      readonly type: 'budget';
      readonly tenant: string;
      readonly id: string;
      readonly tokenBudget: number | undefined;
    }
  | {
      readonly type: 'forget-session';
      readonly tenant: string;
      readonly id: string;
      readonly by: string;
      /** Keeps the budget of the session and what was used of it. */
      readonly keepsBudget?: boolean;
    }
  | {
      readonly type: 'limits';
      readonly limits: readonly LimitSpec[];
      readonly by: string;
      /** The tenant whose limits are replaced; those of the default tenant, the operator's, hold for all. */
      readonly tenant?: string;
    };

export const sessions = {
  budget: needsDiskSpace((turn, { tenant, id, tokenBudget }) => setBudget(turn, tenant, id, tokenBudget)),
  /** Deletes a session and cancels its live jobs. */
  'forget-session': mayRefuse((turn, { tenant, id, by, keepsBudget }) => {
    const record = forgetSession(turn, tenant, id, keepsBudget);
    for (const entry of [...turn.state.roster.inSession(tenant, id)]) cancelOne(turn, entry, by);
    return record;
  }),
  limits: needsDiskSpace((turn, { limits, by, tenant = DEFAULT_TENANT }) =>
    setLimits(turn, tenant, limits, by),
  ),
} satisfies Handlers<SessionEvent>;
