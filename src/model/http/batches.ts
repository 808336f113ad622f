/** Schemas of the HTTP requests and answers about batches: jobs that were submitted together. */
import { Type } from 'typebox';
import { NAME, TAG_VALUE } from '../job-spec.ts';
import { JOB_STATES, type JobState } from '../states.ts';
import { JobFilter, TagFilter } from '../submit.ts';
import { answerObject, Instant, instant, requestObject, type Shape } from './shape.ts';

const optional = Type.Optional;

const Tags = Type.Record(Type.String({ pattern: NAME }), Type.String({ pattern: TAG_VALUE }), {
  maxProperties: 16,
  additionalProperties: false,
  description: 'Tags by which people find batches',
});

export const CreateBatch = requestObject({
  batch_id: optional(
    Type.String({ pattern: NAME, description: 'Id chosen by the caller; one is made if it is absent' }),
  ),
  name: optional(Type.String({ minLength: 1, maxLength: 255, description: 'A name for people' })),
  tags: optional(Tags),
});
export type CreateBatch = Shape<typeof CreateBatch>;

/** The counts of jobs by state; every state is there. */
const Counts = Type.Unsafe<Record<JobState, number>>(
  Type.Object(Object.fromEntries(JOB_STATES.map((state) => [state, Type.Integer()])), {
    description: 'Number of jobs by state; ended jobs stay counted after they are deleted',
  }),
);

export const BatchView = answerObject('Batch', {
  batch_id: Type.String(),
  name: optional(Type.String()),
  tags: optional(Type.Record(Type.String(), Type.String())),
  created_at: Instant,
  jobs: Type.Integer({ description: 'Number of its jobs' }),
  live_jobs: Type.Integer({ description: 'Number of its jobs that have not ended' }),
  counts: Counts,
  ended_at: optional(instant('When its last job ended; absent while one is live, and before the first')),
  predicted_end_ms: optional(
    Type.Number({
      description: 'Expected milliseconds until its last waiting job ends; absent where that cannot be said',
    }),
  ),
});
export type BatchView = Shape<typeof BatchView>;

export const BatchPage = answerObject('BatchPage', {
  batches: Type.Array(BatchView, { description: 'Last changed first' }),
});

export const BatchListQuery = requestObject({
  tag: optional(TagFilter),
  limit: optional(Type.Integer({ minimum: 1, maximum: 1000, description: '100 by default' })),
});

export const ResultsQuery = requestObject({
  state: optional(Type.String({ description: 'One state, or several separated by commas' })),
  after: optional(
    Type.String({
      pattern: '^[0-9]{1,16}$',
      description: 'The `n` of the last line that was received: the results go on behind it',
    }),
  ),
  include: optional(Type.Literal('payload', { description: 'Adds the payload of each job' })),
});

/** Which jobs a command is for. At least one filter is required: a command for all jobs must be meant. */
export const BulkCommand = requestObject({
  ...JobFilter,
  dry_run: optional(Type.Boolean({ description: 'Only counts the jobs, and changes nothing' })),
});
export type BulkCommand = Shape<typeof BulkCommand>;

export const BulkOutcome = answerObject('BulkOutcome', {
  matched: Type.Integer({ description: 'Number of jobs that match and that the command could be for' }),
  changed: Type.Integer({ description: 'Number of jobs that were changed; 0 with `dry_run`' }),
  refused: Type.Integer({ description: 'Number of jobs for which the command was refused' }),
  refusal: optional(Type.String({ description: 'Why the first of them was refused' })),
  job_ids: Type.Array(Type.String(), { description: 'The first jobs that match, 10 at most' }),
});
export type BulkOutcome = Shape<typeof BulkOutcome>;
