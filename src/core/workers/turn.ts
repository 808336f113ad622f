/** A turn as the life of workers needs it: with what was learned of when jobs come, by model. */
import type { Turn } from '../turn.ts';
import type { Demand } from './demand.ts';

export interface WorkerTurn extends Turn {
  readonly demands: Map<string, Demand>;
}
