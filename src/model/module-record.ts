/** What a brain remembers of a module: which ends of its jobs were handled. */

/**
 * Admission numbers from the first to the second, both included: all jobs of the module in between were handled. Numbers
 * in between that belong to other jobs do not matter.
 */
export type HandledRange = readonly [from: number, to: number];

export interface ModuleRecord {
  readonly v: 1;
  /** In ascending order, without overlaps. */
  readonly handled: readonly HandledRange[];
}
