/** What an agent runs for each job. */
import type { Lifecycle } from '../../spool/envelope.ts';

export interface SpoolJob {
  readonly name: string;
  /** The value in `prompt.json`. */
  readonly prompt: unknown;
  /** The folder of the job, which stays where it is while the job is run. */
  readonly folder: string;
  /** The file in the folder that the handler may append its events to. */
  readonly events: string;
  /** `job_id`, `type` and `model` from the `job.json` of a brain's job; absent in jobs of others. */
  readonly jobId?: string | undefined;
  readonly type?: string | undefined;
  readonly model?: string | undefined;
  /** 1 for the first attempt. */
  readonly attempt: number;
  /** The `job.json` with which the attempt began. */
  readonly lifecycle: Lifecycle;
  /** Aborted when the job is to end: its time is over, somebody has ordered it, or the agent stops. */
  readonly signal: AbortSignal;
  /** Aborted when the agent gives the job up: it stops, or the job is not its own any more. */
  readonly leave: AbortSignal;
}

export type JobOutcome =
  | { readonly ok: true; readonly result: unknown }
  | {
      readonly ok: false;
      readonly reason: string;
      /** False where the same job would fail again. */
      readonly retriable?: boolean | undefined;
      /** The handler was cut off by somebody else, and may have done all of its work: a job of a brain goes back to the brain. */
      readonly isUnknown?: boolean;
      /** Written to `job.json` with the status that follows. */
      readonly changes?: Partial<Lifecycle>;
    }
  /** The work goes on elsewhere, and whoever has the job next finds it again. Only after `leave` was aborted. */
  | { readonly ok: 'left' };

/** Settles when nothing of the job runs any more. A rejection is a failure of the job. */
export type JobHandler = (job: SpoolJob) => Promise<JobOutcome>;

/** Makes a handler of a function: what it returns is the result, what it throws is the reason of the failure. */
export const functionHandler =
  (run: (prompt: unknown, job: SpoolJob) => unknown): JobHandler =>
  async (job) => ({ ok: true, result: await run(job.prompt, job) });
