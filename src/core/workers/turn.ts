/** A turn with the learned demand of each model. */
import type { Turn } from '../turn.ts';
import type { Demand } from './demand.ts';

export interface WorkerTurn extends Turn {
  /** By the id of the model. */
  readonly demands: Map<string, Demand>;
}
