/** Events of governance: the mode is changed, by a person or by a trigger. */
import { type ModeOrder, setMode } from '../admission/governed.ts';
import { type Handlers, mayRefuse } from './handler.ts';

export interface GovernanceEvent {
  readonly type: 'mode';
  readonly order: ModeOrder;
}

export const governance = {
  // Also while the disk is full: whoever stops everything has a reason.
  mode: mayRefuse((turn, { order }) => setMode(turn, order)),
} satisfies Handlers<GovernanceEvent>;
