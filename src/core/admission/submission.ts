import type { AskRecord } from '../../model/records.ts';
import type { EndedJob } from '../ports/store.ts';

/** A checked request to run a job, before the engine has decided on it. */
export interface Submission extends Omit<AskRecord, 'v' | 'n' | 'createdAt' | 'ancestors'> {
  readonly forceRetry: boolean;
  /** The body is put away. It is not where a repeat was seen: then the job must not be admitted as new. */
  readonly bodyStored: boolean;
  /** What the history knows of this id, where the caller chose it and memory does not. */
  readonly known: EndedJob | undefined;
}
