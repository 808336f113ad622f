import type { EndState } from './states.ts';

/**
 * A job that ended badly while more jobs waited for it than one commit can end; the record's id is the uid of that job.
 * It is deleted once the end has been passed on to all of them, and until then a restart goes on with it: the job itself
 * may have left memory.
 */
export interface FailedDependencyRecord {
  readonly v: 1;
  readonly end: EndState;
}
