/** Events of the policy: operators set it, and undo what was set last. */
import { type PolicyOrder, setPolicy, undoPolicy } from '../workers/policy.ts';
import { type Handlers, needsDiskSpace } from './handler.ts';

export type PolicyEvent =
  | { readonly type: 'policy'; readonly order: PolicyOrder }
  | { readonly type: 'undo-policy'; readonly by: string; readonly why: string };

export const policy = {
  policy: needsDiskSpace((turn, { order }) => {
    const record = setPolicy(turn, order, turn.configured);
    turn.adoptPolicy();
    return record;
  }),
  'undo-policy': needsDiskSpace((turn, { by, why }) => {
    const record = undoPolicy(turn, by, why);
    turn.adoptPolicy();
    return record;
  }),
} satisfies Handlers<PolicyEvent>;
