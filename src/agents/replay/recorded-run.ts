/** A run as its records tell it: what replay, forks and saved files are made from. */
import type { RunRequest } from '../../model/agent.ts';
import type { JobView } from '../../model/http/jobs.ts';
import type { RunResult } from '../run.ts';
import type { ChatMessage, RunState, StepNote } from '../run-state.ts';
import type { RunRecord } from './run-record.ts';

/** A job below a run, with its bodies. */
export type RecordedCall = Pick<
  JobView,
  | 'job_id'
  | 'type'
  | 'state'
  | 'tags'
  | 'model'
  | 'payload'
  | 'result'
  | 'error'
  | 'started_at'
  | 'ended_at'
  | 'usage'
  | 'cost'
> &
  /** Of runs below. */
  Partial<Pick<JobView, 'created_at'>>;

export interface RecordedHead {
  readonly run_id: string;
  readonly priority: 'interactive' | 'batch';
  readonly created_at: number;
  readonly session_id?: string;
  readonly request: RunRequest;
  readonly record: RunRecord;
  /** The messages of the session when the run began; none without a session, and none for a fork. */
  readonly conversation: readonly ChatMessage[];
  /** The state with which a fork began, as far as it was taken from its origin. */
  readonly taken?: TakenState;
  /** The notes of the steps so far: the names of the models as the run asked for them. */
  readonly steps: readonly StepNote[];
  /** Absent for a run that has none: it goes on, was cancelled, or was given up. */
  readonly result?: RunResult;
}

/** The part of a state that a fork takes from the run that it goes on from. */
export type TakenState = Pick<
  RunState,
  'agent' | 'phase' | 'messages' | 'made' | 'asked' | 'isRepairing' | 'reply' | 'isMerging' | 'checkpoint'
>;

export interface RunRecords {
  readonly head: RecordedHead;
  /**
   * The jobs with these ids below the run, in the order of the ids; undefined where there is none. Throws RUN_GONE where
   * a body of one is no longer kept.
   */
  calls(ids: readonly string[]): Promise<readonly (RecordedCall | undefined)[]>;
}
