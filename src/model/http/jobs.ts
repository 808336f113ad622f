/** Schemas of the HTTP requests and answers about jobs (/v2/tasks). */
import { Type } from 'typebox';
import { NAME } from '../job-spec.ts';
import {
  ATTEMPT_STATE_MEANING,
  ATTEMPT_STATES,
  type AttemptState,
  JOB_STATE_MEANING,
  JOB_STATES,
  type JobState,
} from '../states.ts';
import { SubmitRequest } from '../submit.ts';
import { ErrorBody, JobError } from './errors.ts';
import { JobRoute } from './routes.ts';
import { answerObject, Instant, instant, requestObject, type Shape } from './shape.ts';

const optional = Type.Optional;

export const MAX_BULK = 1000;

/** One job, or an array of jobs, each of which is checked by itself and has an answer of its own. */
export const SubmitBody = Type.Union([
  SubmitRequest,
  Type.Array(SubmitRequest, { minItems: 1, maxItems: MAX_BULK }),
]);

export const SubmitQuery = requestObject({
  batch: optional(Type.String({ pattern: NAME, description: 'The batch of all jobs that name none' })),
});

const listOf = (meanings: Readonly<Record<string, string>>): string =>
  Object.entries(meanings)
    .map(([name, meaning]) => `- ${name}: ${meaning}`)
    .join('\n');

const JobStateSchema = Type.Unsafe<JobState>({
  type: 'string',
  title: 'JobState',
  enum: JOB_STATES,
  description: listOf(JOB_STATE_MEANING),
});
const AttemptStateSchema = Type.Unsafe<AttemptState>({
  type: 'string',
  title: 'AttemptState',
  enum: ATTEMPT_STATES,
  description: listOf(ATTEMPT_STATE_MEANING),
});
const Priority = Type.Union([Type.Literal('interactive'), Type.Literal('batch')]);

/** The tokens that the backends have counted, of one attempt or of all attempts of a job; absent where they count none. */
const JobUsage = answerObject('JobUsage', {
  prompt_tokens: Type.Integer({ description: 'All input tokens' }),
  completion_tokens: Type.Integer({ description: 'All output tokens' }),
  cache_read_tokens: optional(Type.Integer({ description: 'Input tokens that were read from a cache' })),
  cache_write_tokens: optional(Type.Integer({ description: 'Input tokens that were written to a cache' })),
  reasoning_tokens: optional(Type.Integer({ description: 'Output tokens of reasoning' })),
});

const cost = (description: string) =>
  Type.Integer({ description: `${description}, in millionths of the currency` });

/** The money of one attempt. */
const AttemptCost = answerObject('AttemptCost', {
  reserved: cost('What its budgets hold back, or held back, for it'),
  is_bound: Type.Boolean({ description: 'Whether `reserved` is an upper bound, and not an estimate' }),
  amount: optional(cost('What it has cost; absent while it is open')),
  basis: optional(
    Type.Union([Type.Literal('told'), Type.Literal('assumed'), Type.Literal('nothing')], {
      description:
        'Where `amount` comes from: the provider told what was used, it is assumed to be what was reserved because nobody knows, or the provider did nothing',
    }),
  ),
});

/** The money of all listed attempts of a job. */
export const JobCost = answerObject('JobCost', {
  amount: cost('What the closed attempts have cost'),
  assumed: cost('The part of `amount` that is assumed, because nobody knows what was used'),
  reserved: cost('What the open attempt holds back'),
});
export type JobCost = Shape<typeof JobCost>;

export const AttemptView = answerObject('Attempt', {
  attempt: Type.Integer({ description: 'Number of the attempt; later attempts have higher numbers' }),
  backend: Type.String({ description: 'Name of the backend that the job was offered to' }),
  model: optional(
    Type.String({ description: 'The model that it was started for, if a route has chosen it' }),
  ),
  state: AttemptStateSchema,
  outcome: optional(
    Type.String({
      description:
        '"succeeded", "failed", "cancelled", "turned_away" (the provider has done nothing for it) or "waits" (the job waits, and goes on with another attempt), once the backend has confirmed the end',
    }),
  ),
  error: optional(JobError),
  intended_at: instant('When the attempt was recorded, before it was offered'),
  accepted_at: optional(instant('When the backend accepted the attempt')),
  ended_at: optional(Instant),
  usage: optional(JobUsage),
  cost: optional(AttemptCost),
});
export type AttemptView = Shape<typeof AttemptView>;

const WAIT_CODE_MEANING = {
  paused: 'it, or a job above it, is paused; it starts after that one was resumed',
  not_before: 'its earliest start has not come yet',
  after: 'a job that it waits for has not ended yet',
  session_busy: 'another job of its session goes first',
  sticky:
    'the backend that has its conversation is busy, and is waited for as long as that costs less than moving',
  governance: 'nothing of its kind starts in the present mode of governance',
  no_backend: 'no backend can run it',
  worker_start: 'a worker for its model is being started, or cannot be started now',
  backend_down: 'no backend that can run it can be reached',
  backend_busy: 'it is next, but all backends that can run it are busy',
  quota: 'a limit of running jobs or a hard budget has no room for it now',
  wait: 'it has given up its attempt, and waits for jobs below it, for an instant or for an answer',
  seat_paused: 'every seat that can run it is paused, because its provider has billed more than its bound',
  disk_full: 'the disk of the brain is full; nothing new is started',
  behind: 'other jobs go first',
  offer: 'it is being offered to a backend',
  unknown_outcome: 'its backend cannot tell whether its attempt ran',
  cancelling: 'it is cancelled as soon as its backend confirms it',
};

export const WAIT_CODES = Object.keys(WAIT_CODE_MEANING) as (keyof typeof WAIT_CODE_MEANING)[];

export const WaitReason = answerObject('WaitReason', {
  code: Type.Unsafe<(typeof WAIT_CODES)[number]>({
    type: 'string',
    enum: WAIT_CODES,
    description: listOf(WAIT_CODE_MEANING),
  }),
  text: Type.String({ description: 'Human-readable; may change' }),
});
export type WaitReason = Shape<typeof WaitReason>;

export const JobWait = answerObject('JobWait', {
  step: Type.Integer({ description: 'How many times the job has waited so far' }),
  jobs: Type.Array(Type.String(), { description: 'The jobs below it whose end it waits for' }),
  needs: Type.Union([Type.Literal('all'), Type.Literal('any')], {
    description: 'Whether all of them must have ended, or one',
  }),
  until: optional(instant('When it goes on without them')),
});
export type JobWait = Shape<typeof JobWait>;

export const JobPause = answerObject('JobPause', {
  at: Instant,
  by: Type.String({ description: 'Who paused it' }),
});

export const JobBudget = answerObject('JobBudget', {
  tokens: optional(Type.Integer({ description: 'The most tokens that it and all jobs below it may use' })),
  tokens_used: optional(Type.Integer({ description: 'Tokens of the jobs below it that have ended' })),
  cost: optional(cost('The most that all of them may cost')),
  cost_used: optional(cost('What their closed attempts have cost')),
});
export type JobBudget = Shape<typeof JobBudget>;

export const JobView = answerObject('Job', {
  job_id: Type.String(),
  state: JobStateSchema,
  run_state: optional(
    Type.Union([Type.Literal('completed'), Type.Literal('failed')], {
      description:
        'Of a run of an agent that has succeeded as a job: whether it has answered; `error` of its result says why not',
    }),
  ),
  type: Type.String({ description: 'Kind of work' }),
  priority: Priority,
  agent: Type.String({ description: 'The agent that the job is for: fairness and limits are per agent' }),
  key: optional(Type.String({ description: 'At most one live job has this key' })),
  session_id: optional(Type.String({ description: 'The conversation that the job belongs to' })),
  batch: optional(Type.String({ description: 'The batch that the job belongs to' })),
  tags: optional(
    Type.Record(Type.String(), Type.String(), { description: 'Tags by which people find jobs' }),
  ),
  after: optional(
    Type.Array(Type.String(), { description: 'The jobs whose end the job waited, or waits, for' }),
  ),
  not_before: optional(instant('The earliest start that the caller has set')),
  model: optional(
    Type.String({
      description: 'Id of the model, even if the job named an alias; of a route, the present one',
    }),
  ),
  route: optional(JobRoute),
  model_ref: optional(
    Type.String({
      description: 'Reference of the model when the job was admitted, with its revision and file pinned',
    }),
  ),
  score: Type.Number({ description: 'Order among the jobs of one agent: the highest score first' }),
  created_at: Instant,
  started_at: optional(instant('When a backend accepted the current or last try; absent after a failed try')),
  ended_at: optional(Instant),
  tries: Type.Integer({
    description: 'Failed tries so far; an attempt that certainly never ran does not count',
  }),
  max_tries: Type.Integer({ description: 'A job that has failed this many times is not tried again' }),
  attempts: Type.Array(AttemptView, { description: 'The most recent attempts, oldest first' }),
  cancel_requested: optional(
    Type.Boolean({ description: 'A cancel was requested; the job ends when its backend has confirmed it' }),
  ),
  reason: optional(
    Type.String({
      description: 'Why the job is dead: "failed", "dropped", "expired", "killed" or "dependency"',
    }),
  ),
  error: optional(JobError),
  usage: optional(JobUsage),
  cost: optional(JobCost),
  payload: optional(
    Type.Unknown({
      description:
        'What was asked, in the form in which a backend receives it: any JSON value. Absent in lists, and where it has more than 4 KiB, unless it is asked for with `include=payload`',
    }),
  ),
  payload_bytes: Type.Integer({ description: 'The size of the payload as JSON text' }),
  result: optional(Type.Unknown({ description: 'The result of a job that succeeded: any JSON value' })),
  queue_position: optional(
    Type.Integer({ description: 'Estimated number of jobs that go before this one; 0 is next' }),
  ),
  predicted_start_ms: optional(Type.Number({ description: 'Expected milliseconds until the job starts' })),
  waiting: optional(WaitReason),
  wait: optional(JobWait),
  paused: optional(JobPause),
  budget: optional(JobBudget),
});
export type JobView = Shape<typeof JobView>;

export const JobPage = answerObject('JobPage', {
  jobs: Type.Array(JobView),
  cursor: optional(
    Type.String({
      description: 'Value of the parameter `cursor` for the next page; absent on the last page',
    }),
  ),
});
export type JobPage = Shape<typeof JobPage>;

const submitted = {
  job_id: Type.String(),
  status: JobStateSchema,
  queue_position: JobView.properties.queue_position,
  predicted_start_ms: JobView.properties.predicted_start_ms,
  duplicate_of: optional(
    Type.Union([Type.Literal('job_id'), Type.Literal('key')], {
      description: 'The job existed already, and was found by its id or by its key',
    }),
  ),
  warning: optional(Type.String({ description: 'Why nothing here could run the job now' })),
};

/** The answer to a submit of a program that embeds orchd; over HTTP it also has `events_url`. */
const Submitted = Type.Object(submitted);
export type Submitted = Shape<typeof Submitted>;

export const SubmittedTask = answerObject('SubmittedTask', {
  ...submitted,
  events_url: Type.String({ description: 'Path of the events of the job' }),
});
export type SubmittedTask = Shape<typeof SubmittedTask>;

const HttpStatus = Type.Integer({ description: 'Status that this job alone would have been answered with' });

export const BulkAnswer = Type.Union(
  [
    Type.Object({ http_status: HttpStatus, ...SubmittedTask.properties }),
    Type.Object({ http_status: HttpStatus, ...ErrorBody.properties }),
  ],
  { title: 'BulkAnswer' },
);
export type BulkAnswer = Shape<typeof BulkAnswer>;

export const BulkAnswers = answerObject('BulkAnswers', {
  answers: Type.Array(BulkAnswer, { description: 'One for each job of the array, in its order' }),
});

export const JobQuery = Type.Object(
  {
    include: optional(
      Type.Literal('payload', { description: 'Shows the payload even if it has more than 4 KiB' }),
    ),
  },
  { additionalProperties: false },
);

export const EventsQuery = Type.Object(
  {
    last_event_id: optional(
      Type.String({ description: 'Instead of the header Last-Event-ID, for clients that cannot set it' }),
    ),
  },
  { additionalProperties: false },
);
