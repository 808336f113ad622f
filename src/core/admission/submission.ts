import type { KnownEnds } from '../attempts/dependencies.ts';
import type { NewJob } from '../ports/new-job.ts';
import type { LeaseProof } from './lease.ts';

/** A checked request of a caller to run a job, before the engine has decided on it. */
export interface Submission extends NewJob {
  /** The models that the caller may use, see isListed; it is checked and not stored. */
  readonly allowedModels?: readonly string[] | undefined;
  /** The lease that the job is submitted under; it is checked and not stored. */
  readonly lease?: LeaseProof | undefined;
  /** It is a proposal of a module, which makes room for nobody and leaves room to others; it is checked and not stored. */
  readonly isProposal?: boolean | undefined;
  /** How the jobs of `after` that are no longer in memory have ended. */
  readonly ends?: KnownEnds | undefined;
}
