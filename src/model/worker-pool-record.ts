/** Worker pools: groups of workers, or of consumers, that are kept at a wished size (docs/worker-pools.md). */

/**
 * Who starts and stops the workers. `managers`: the brain orders them from pool managers. `external`: a program outside,
 * which reports how many there are; they are the consumers of the pool of the same name.
 */
export const PROVISIONERS = ['managers', 'external'] as const;
export type Provisioner = (typeof PROVISIONERS)[number];

/** `starting`: fewer than wished. `draining`: it takes no new jobs. `stopped`, `evicted`: it is over, and keeps its row. */
export const WORKER_POOL_STATUSES = ['starting', 'running', 'draining', 'stopped', 'evicted'] as const;
export type WorkerPoolStatus = (typeof WORKER_POOL_STATUSES)[number];

/** What an operator asks for. */
export interface WorkerPoolSpec {
  readonly provisioner: Provisioner;
  /** The agent that the pool works for, told to whoever starts its workers. */
  readonly agent: string | undefined;
  /** The model as the operator names it. */
  readonly model: string | undefined;
  /** A LoRA file that is applied to the model. */
  readonly adapter: string | undefined;
  readonly variant: string | undefined;
  readonly desired: number;
  /** The pool is drained when it has done nothing for this long; 0 keeps it until somebody drains it. */
  readonly holdMs: number;
  readonly metadata: Readonly<Record<string, string>> | undefined;
}

export interface WorkerPoolRecord extends WorkerPoolSpec {
  readonly v: 1;
  readonly status: WorkerPoolStatus;
  /** The model of the catalog that its workers have, which jobs name; undefined without a model. */
  readonly serves: string | undefined;
  /** Workers that run, as pool managers or the program outside last reported them. */
  readonly spawned: number;
  readonly startedAt: number;
  /** The last written report of the program outside: not every one is written. */
  readonly heartbeatAt: number | undefined;
  /** While it drains: when workers that are still busy are stopped. */
  readonly drainBy: number | undefined;
  /** While it drains: that instant has passed, and what runs still is to be ended at once. */
  readonly graceOver?: true | undefined;
  /** Who gave the last order; `hold` where its time was over. */
  readonly by: string;
  /** When the last order was given. */
  readonly at: number;
}

/** It is kept at its wished size. */
export const isKept = ({ status }: Pick<WorkerPoolRecord, 'status'>): boolean =>
  status === 'starting' || status === 'running';
