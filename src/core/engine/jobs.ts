/** Events of jobs: submits of callers, and commands of people (cancel, redrive, resolve). */

import type { OrchdError } from '../../model/errors.ts';
import type { JobState } from '../../model/states.ts';
import { type BatchRequest, noteRedriven, putBatch } from '../admission/batch.ts';
import { restoreFor } from '../admission/session-archive.ts';
import type { Submission } from '../admission/submission.ts';
import { submit } from '../admission/submit.ts';
import {
  cancel,
  type RedriveLookup,
  type ResolveAs,
  redriveJob,
  resolve,
} from '../attempts/operator-commands.ts';
import { pause, resume } from '../attempts/pausing.ts';
import { answerJob, nameState, type StoredState } from '../attempts/waiting.ts';
import type { SessionLookup } from '../ports/new-job.ts';
import { needSourceOf } from '../queue/lane.ts';
import { modelOf } from '../queue/queue.ts';
import { jobPosition, predictStartMs } from '../scheduling/predict.ts';
import type { JobEntry } from '../state/job-entry.ts';
import { noteArrival, startHints } from '../workers/forecast.ts';
import { processEnds } from './ends.ts';
import { type EngineTurn, type Handlers, mayRefuse, needsDiskSpace, orRefusal } from './handler.ts';

export type JobCommandEvent =
  | { readonly type: 'submit'; readonly submissions: readonly Submission[] }
  /** Neither the job nor one below it starts an attempt, until it is resumed. */
  | { readonly type: 'pause-job'; readonly uid: string; readonly by: string }
  | { readonly type: 'resume-job'; readonly uid: string; readonly by: string }
  | { readonly type: 'cancel'; readonly uid: string; readonly by: string }
  | (RedriveLookup & {
      readonly type: 'redrive';
      readonly uid: string;
      readonly by: string;
      /** What was found in the archive of the job's session, if that was not in memory. */
      readonly lookup?: SessionLookup | undefined;
    })
  /** The states of waits that are blobs now. */
  | { readonly type: 'states-stored'; readonly states: readonly StoredState[] }
  | { readonly type: 'batch'; readonly request: BatchRequest }
  /** Somebody answers what a job waits for; `step` says which wait is meant. */
  | { readonly type: 'answer'; readonly uid: string; readonly step: number; readonly answer: string }
  | { readonly type: 'resolve'; readonly uid: string; readonly by: string; readonly how: ResolveAs };

export interface SubmitAnswer {
  readonly uid: string;
  readonly id: string;
  readonly status: JobState;
  readonly queuePosition: number | undefined;
  readonly predictedStartMs: number | undefined;
  /** Set when the submit matched an existing job: by its id or by its key. */
  readonly duplicateOf: 'job_id' | 'key' | undefined;
  /** Nothing here could run the job now. */
  readonly warning?: string;
}

/** The answer to a cancel. If it is partial, descendants are left, and the command must be repeated. */
export interface CancelAnswer {
  readonly job: SubmitAnswer | undefined;
  readonly isPartial: boolean;
}

export const jobs = {
  submit: (turn, event): readonly (SubmitAnswer | OrchdError)[] =>
    event.submissions.map((submission) => orRefusal(() => submitOne(turn, submission))),
  cancel: mayRefuse((turn, { uid, by }): CancelAnswer => {
    const { entry, isPartial } = cancel(turn, uid, by);
    return { job: entry && answer(turn, entry, undefined), isPartial };
  }),
  'pause-job': needsDiskSpace((turn, { uid, by }) => answer(turn, pause(turn, uid, by), undefined)),
  'resume-job': needsDiskSpace((turn, { uid, by }) => answer(turn, resume(turn, uid, by), undefined)),
  redrive: needsDiskSpace((turn, { uid, by, lookup, ...found }) => {
    const entry = redriveJob(turn, uid, by, found);
    restoreFor(turn, entry, lookup);
    noteRedriven(turn, entry);
    return answer(turn, entry, undefined);
  }),
  'states-stored': needsDiskSpace((turn, { states }) => {
    for (const state of states) nameState(turn, state);
  }),
  batch: needsDiskSpace((turn, { request }) => putBatch(turn, request)),
  answer: needsDiskSpace((turn, { uid, step, answer: text }) =>
    answer(turn, answerJob(turn, uid, step, text), undefined),
  ),
  resolve: mayRefuse((turn, { uid, by, how }) => answer(turn, resolve(turn, uid, by, how), undefined)),
} satisfies Handlers<JobCommandEvent>;

export function submitOne(turn: EngineTurn, submission: Submission): SubmitAnswer {
  const admission = submit(turn, submission);
  // A job that was dropped to make room returns its reservation before the next submission is checked.
  processEnds(turn);
  switch (admission.is) {
    case 'admitted':
      noteArrival(turn, modelOf(admission.entry));
      return withWarning(answer(turn, admission.entry, undefined), admission.warning);
    case 'duplicate':
      return answer(turn, admission.entry, admission.of);
    case 'ended':
      return {
        uid: admission.uid,
        id: admission.id,
        status: admission.state,
        queuePosition: undefined,
        predictedStartMs: undefined,
        duplicateOf: 'job_id',
      };
  }
}

const withWarning = (given: SubmitAnswer, warning: string | undefined): SubmitAnswer =>
  warning === undefined ? given : { ...given, warning };

function answer(turn: EngineTurn, entry: JobEntry, duplicateOf: SubmitAnswer['duplicateOf']): SubmitAnswer {
  const position = jobPosition(entry);
  return {
    uid: entry.uid,
    id: entry.ask.id,
    status: entry.job.state,
    queuePosition: position,
    predictedStartMs: predictStartMs(entry, position, turn.now, startHints(turn.state, needSourceOf(entry))),
    duplicateOf,
  };
}
