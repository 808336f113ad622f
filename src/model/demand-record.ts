/** The record of how jobs of a model arrive. */

/** The learned arrival pattern of a model's jobs; `pattern` is a DemandPattern of core/workers/demand.ts. */
export interface DemandRecord {
  readonly v: 1;
  readonly at: number;
  readonly pattern: unknown;
}
