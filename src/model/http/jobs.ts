/** Jobs on the wire: the requests of /v2/tasks and their answers. */
import { Type } from 'typebox';
import { ATTEMPT_STATES, type AttemptState, JOB_STATES, type JobState } from '../states.ts';
import { SubmitRequest } from '../submit.ts';
import { ErrorBody, JobError } from './errors.ts';
import { answerObject, Instant, type Shape } from './shape.ts';

const optional = Type.Optional;

export const MAX_BULK = 1000;

/** Every job of an array is checked by itself and has an answer of its own. */
export const SubmitBody = Type.Union([
  SubmitRequest,
  Type.Array(SubmitRequest, { minItems: 1, maxItems: MAX_BULK }),
]);

const JobStateSchema = Type.Unsafe<JobState>({ type: 'string', title: 'JobState', enum: JOB_STATES });
const AttemptStateSchema = Type.Unsafe<AttemptState>({
  type: 'string',
  title: 'AttemptState',
  enum: ATTEMPT_STATES,
});
const Priority = Type.Union([Type.Literal('interactive'), Type.Literal('batch')]);

export const AttemptView = answerObject('Attempt', {
  attempt: Type.Integer({ description: 'Counts from 1' }),
  backend: Type.String(),
  state: AttemptStateSchema,
  outcome: optional(Type.String()),
  error: optional(JobError),
  intended_at: Instant,
  accepted_at: optional(Instant),
  ended_at: optional(Instant),
});
export type AttemptView = Shape<typeof AttemptView>;

export const WAIT_CODES = [
  'not_before',
  'session_busy',
  'no_backend',
  'worker_start',
  'backend_down',
  'backend_busy',
  'disk_full',
  'behind',
  'offer',
  'unknown_outcome',
  'cancelling',
] as const;

export const WaitReason = answerObject('WaitReason', {
  code: Type.Unsafe<(typeof WAIT_CODES)[number]>({ type: 'string', enum: WAIT_CODES }),
  text: Type.String({ description: 'For people' }),
});
export type WaitReason = Shape<typeof WaitReason>;

export const JobView = answerObject('Job', {
  job_id: Type.String(),
  state: JobStateSchema,
  type: Type.String(),
  priority: Priority,
  agent: Type.String(),
  key: optional(Type.String()),
  session_id: optional(Type.String()),
  model: optional(Type.String()),
  model_ref: optional(
    Type.String({ description: 'The file that the name of the model stood for when the job was admitted' }),
  ),
  score: Type.Number(),
  created_at: Instant,
  started_at: optional(Instant),
  ended_at: optional(Instant),
  tries: Type.Integer(),
  max_tries: Type.Integer(),
  attempts: Type.Array(AttemptView),
  cancel_requested: optional(Type.Boolean()),
  reason: optional(Type.String({ description: 'Why a dead job is dead' })),
  error: optional(JobError),
  result: optional(Type.Unknown({ description: 'The result of a job that succeeded: any JSON value' })),
  queue_position: optional(Type.Integer({ description: 'Jobs ahead of it; 0 is next' })),
  predicted_start_ms: optional(Type.Number({ description: 'Milliseconds until it is expected to start' })),
  waiting: optional(WaitReason),
});
export type JobView = Shape<typeof JobView>;

export const JobPage = answerObject('JobPage', {
  jobs: Type.Array(JobView),
  cursor: optional(Type.String({ description: 'Send it to get the next page; absent on the last one' })),
});
export type JobPage = Shape<typeof JobPage>;

const submitted = {
  job_id: Type.String(),
  status: JobStateSchema,
  queue_position: optional(Type.Integer()),
  predicted_start_ms: optional(Type.Number()),
  duplicate_of: optional(
    Type.Union([Type.Literal('job_id'), Type.Literal('key')], {
      description: 'The job existed already: by which of its names it was found',
    }),
  ),
};

/** What a program that embeds orchd gets for a submit; over HTTP the address of the events is added. */
const Submitted = Type.Object(submitted);
export type Submitted = Shape<typeof Submitted>;

export const SubmittedTask = answerObject('SubmittedTask', { ...submitted, events_url: Type.String() });
export type SubmittedTask = Shape<typeof SubmittedTask>;

export const BulkAnswer = Type.Union(
  [
    Type.Object({ http_status: Type.Integer(), ...SubmittedTask.properties }),
    Type.Object({ http_status: Type.Integer(), ...ErrorBody.properties }),
  ],
  { title: 'BulkAnswer' },
);
export type BulkAnswer = Shape<typeof BulkAnswer>;

export const BulkAnswers = answerObject('BulkAnswers', {
  answers: Type.Array(BulkAnswer, { description: 'One for each job of the array, in its order' }),
});

export const EventsQuery = Type.Object(
  { last_event_id: optional(Type.String({ description: 'As the header Last-Event-ID' })) },
  { additionalProperties: false },
);
