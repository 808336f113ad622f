/** A checked request to run a job, before the engine has decided on it. */
import type { AskRecord } from '../../model/records.ts';
import type { SessionRecord } from '../../model/session-record.ts';
import type { EndedJob } from './store.ts';

/** What a look into the archive has found of a session that was not in memory. */
export interface SessionLookup {
  /** How many sessions had left memory before the look; see SessionTable.left. */
  readonly left: number;
  readonly archived: SessionRecord | undefined;
}

export interface NewJob extends Omit<AskRecord, 'v' | 'n' | 'createdAt' | 'ancestors' | 'line'> {
  readonly forceRetry: boolean;
  /** What becomes of a job that nothing here could run: it is refused, or waits. A program that embeds orchd may wait. */
  readonly unrunnable?: 'refuse' | 'wait' | undefined;
  /** The field of the payload that leaves open what the job costs at most, for the message of a refusal. */
  readonly unboundedBy?: string | undefined;
  /** False if the body was not stored because the request looked like a repeat: then it must not become a new job. */
  readonly bodyStored: boolean;
  /** The job with this id from the history, if the caller chose the id and the job is no longer in memory. */
  readonly known: EndedJob | undefined;
  /** What is known of the job's session, if it has one; absent where there is no archive. */
  readonly session?: SessionLookup | undefined;
}
