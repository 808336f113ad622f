/** Schemas of errors: in jobs, in events, and as the body of an unsuccessful HTTP answer. */
import { Type } from 'typebox';
import { ERRORS, type ErrorCode } from '../errors.ts';
import { answerObject, orNull, type Shape } from './shape.ts';

const optional = Type.Optional;

const ErrorCodeSchema = Type.Unsafe<ErrorCode>({ type: 'string', enum: Object.keys(ERRORS) });

const REASON = "A more specific code: the executor's own if it sent one";

/** Why a job or an attempt ended without success. */
export const JobError = answerObject('JobError', {
  code: ErrorCodeSchema,
  message: Type.String({ description: 'Human-readable; may change' }),
  retriable: Type.Boolean({ description: 'Whether another try may succeed' }),
  reason: optional(Type.String({ description: REASON })),
});

const errorFields = {
  code: ErrorCodeSchema,
  message: Type.String({ description: 'Human-readable; may change' }),
  retriable: Type.Boolean({ description: 'Whether the same request may succeed later' }),
  next: Type.String({ description: 'What to do about it' }),
  correlation_id: Type.String({
    description:
      'The same as the header X-Correlation-Id of the answer; log entries about the request have it',
  }),
  reason: optional(Type.String({ description: REASON })),
  field: optional(Type.String({ description: 'The field of the request that is wrong' })),
  position: optional(
    Type.String({ description: 'Place of the fault: file, line and column, or the environment variable' }),
  ),
  job_id: optional(Type.String({ description: 'The job that the error is about' })),
  job_ids: optional(
    Type.Array(orNull(Type.String()), {
      description:
        'The ids of the jobs of an array, in its order, if they may have been accepted: repeat the array with these ids; null for an element that is no job',
    }),
  ),
  retry_after_ms: optional(Type.Number({ description: 'Milliseconds to wait before retrying' })),
};

/** The top-level fields that an answer with status 429 has beside `error`. */
const backoff = {
  policy_label: optional(
    Type.String({ description: 'Only with status 429: the limit that refused the request' }),
  ),
  retriable: optional(Type.Boolean({ description: 'Only with status 429: the same as error.retriable' })),
  retry_after_ms: optional(
    Type.Number({
      description: 'Only with status 429: milliseconds to wait before retrying; 0 if not known',
    }),
  ),
};

export const ErrorBody = answerObject('ErrorBody', {
  error: answerObject('ErrorDescription', errorFields),
  ...backoff,
});
export type ErrorBody = Shape<typeof ErrorBody>;

/** The error body under /v1: it also has the fields that OpenAI clients read. */
export const OpenAiErrorBody = answerObject('OpenAiErrorBody', {
  error: answerObject('OpenAiErrorDescription', {
    ...errorFields,
    type: Type.String({ description: "OpenAI's class of the error, such as invalid_request_error" }),
    param: orNull(Type.String({ description: 'The same as field' })),
  }),
  ...backoff,
});
