import type { EndState } from './states.ts';

/** A batch: jobs that were submitted together, and are counted, waited for and read together. */
export interface BatchRecord {
  readonly v: 1;
  readonly tenant: string;
  readonly id: string;
  readonly name: string | undefined;
  readonly tags: Readonly<Record<string, string>> | undefined;
  readonly createdAt: number;
  /** When a job of the batch was last admitted, redriven, or ended. */
  readonly at: number;
  /** The ends of its jobs by state. Jobs that have not ended are counted in memory, from their own records. */
  readonly ended: Readonly<Record<EndState, number>>;
}
