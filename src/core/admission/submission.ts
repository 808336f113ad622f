import type { AskRecord } from '../../model/records.ts';
import type { KnownEnds } from '../attempts/dependencies.ts';
import type { EndedJob } from '../ports/store.ts';
import type { LeaseProof } from './lease.ts';

/** A checked request to run a job, before the engine has decided on it. */
export interface Submission extends Omit<AskRecord, 'v' | 'n' | 'createdAt' | 'ancestors'> {
  readonly forceRetry: boolean;
  /** The models that the caller may use, see isListed; it is checked and not stored. */
  readonly allowedModels?: readonly string[] | undefined;
  /** The lease that the job is submitted under; it is checked and not stored. */
  readonly lease?: LeaseProof | undefined;
  /** What becomes of a job that nothing here could run: it is refused, or waits. A program that embeds orchd may wait. */
  readonly unrunnable?: 'refuse' | 'wait' | undefined;
  /** The field of the payload that leaves open what the job costs at most, for the message of a refusal. */
  readonly unboundedBy?: string | undefined;
  /** False if the body was not stored because the request looked like a repeat: then it must not become a new job. */
  readonly bodyStored: boolean;
  /** The job with this id from the history, if the caller chose the id and the job is no longer in memory. */
  readonly known: EndedJob | undefined;
  /** How the jobs of `after` that are no longer in memory have ended. */
  readonly ends?: KnownEnds | undefined;
}
