/** Whether workers may be ordered now, or others make room for them. */
import { startsNone } from '../governance/governance.ts';
import type { EngineView } from '../turn.ts';

/** Not while nothing can be recorded, nor in a mode in which no model is called: a worker does nothing else. */
export const mayOrderWorkers = ({ state }: Pick<EngineView, 'state'>): boolean =>
  !state.full && !state.paused && !startsNone(state.governance, 'models');
