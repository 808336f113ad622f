/** The interface through which the shapes drive orchd and each peer, so that all are measured by the same code. */

export interface JobBody {
  /** The time of the submit, on this process's monotonic clock. */
  readonly t: number;
  readonly body: string;
}

export interface System {
  /** Resolves when the job is durable. */
  submit(job: JobBody): Promise<void>;
  /** Submits many jobs in one call. */
  submitMany(jobs: readonly JobBody[]): Promise<void>;
  /** Submits, and resolves when the job has been run and its end is durable. */
  cycle(job: JobBody): Promise<void>;
  /** Starts running waiting and new jobs. Before this, jobs wait. */
  work(): Promise<void>;
  /** Stops running jobs: new ones wait again. */
  rest(): Promise<void>;
  /** Called with each job when its handler starts. */
  onStart: (job: JobBody) => void;
  /** The number of syncs of this process so far, where they are counted. */
  readonly syncs?: () => number;
  /** The server processes that belong to the system. */
  readonly servers: readonly number[];
  close(): Promise<void>;
}
