/** A job system as the shapes drive it: ours and each peer, so that all are measured by the same code. */

export interface JobBody {
  /** When it was submitted, on this process's monotonic clock. */
  readonly t: number;
  readonly body: string;
}

export interface System {
  /** Resolves when the job is durable. */
  submit(job: JobBody): Promise<void>;
  /** The same for many in one call. */
  submitMany(jobs: readonly JobBody[]): Promise<void>;
  /** Submits, and resolves when the job has been run and its end is durable. */
  cycle(job: JobBody): Promise<void>;
  /** Lets waiting and new jobs run. Until then they wait. */
  work(): Promise<void>;
  /** Lets new jobs wait again. */
  rest(): Promise<void>;
  /** Called with each job when its handler starts. */
  onStart: (job: JobBody) => void;
  /** Syncs that this process has asked for so far, where it counts them. */
  readonly syncs?: () => number;
  /** Server processes that do its work. */
  readonly servers: readonly number[];
  close(): Promise<void>;
}
