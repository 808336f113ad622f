/** Schemas of the HTTP requests and answers about jobs in the words of the table orchestrator_jobs. */
import { Type } from 'typebox';
import { JOB_ID } from '../job-spec.ts';
import { answerObject, Instant, instant, orNull, requestObject, type Shape } from './shape.ts';

export const TableSubmit = requestObject({
  job_id: Type.String({ pattern: JOB_ID, description: 'The same id with the same body is the same job' }),
  type: Type.String({ minLength: 1, maxLength: 64, description: 'Kind of work' }),
  payload: Type.Unknown({ description: 'Input for the backend: any JSON value' }),
});

const WORDS = [
  'pending',
  'claimed',
  'running',
  'waiting',
  'stale',
  'failed',
  'dead_letter',
  'done',
  'cancelled',
] as const;

export const JobTableRow = answerObject('JobTableRow', {
  job_id: Type.String(),
  type: Type.String(),
  status: Type.Unsafe<(typeof WORDS)[number]>({ type: 'string', enum: [...WORDS] }),
  owner_pool: orNull(
    Type.String({
      description: 'The pool of consumers, or another backend, that has the job or had it last',
    }),
  ),
  attempts: Type.Integer({ description: 'Attempts so far' }),
  created_at: Instant,
  updated_at: instant('The last change that is known'),
  last_error: orNull(Type.String({ description: 'Code and message' })),
});
export type JobTableRow = Shape<typeof JobTableRow>;
