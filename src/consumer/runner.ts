/** What runs the jobs of a consumer. */
import type { ClaimedJob } from '../model/http/consumers.ts';
import type { Shape } from '../model/http/shape.ts';
import type { Ended, HeldJob } from './held-job.ts';

export type Claimed = Shape<typeof ClaimedJob>;

/** A job that was claimed by an earlier process under the same registration. */
export interface ResumedJob {
  readonly token: string;
  run(held: HeldJob): Promise<Ended>;
}

/** Where an earlier process has come. */
export interface Resumed {
  /** The number of the last claim that it may have sent. The answer may have been lost, so it is sent again. */
  readonly claim: number;
  readonly jobs: readonly ResumedJob[];
}

export interface Runner {
  /** Called before a claim is sent. */
  claiming?(claim: number): Promise<void>;
  /** Called with the jobs of a claim before they are begun. */
  claimed?(tokens: readonly string[]): Promise<void>;
  /** Begins a job, and says how it ends. The next claim is sent when the jobs of this one are begun. */
  begin(job: Claimed, held: HeldJob): Promise<{ readonly ended: Promise<Ended> }>;
  /** The result is durable at the brain, or nobody wants it. */
  settled?(token: string): void;
}
