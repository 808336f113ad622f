/** Errors on the wire: inside of jobs and events, and as the body of an answer that is no success. */
import { Type } from 'typebox';
import { ERRORS, type ErrorCode } from '../errors.ts';
import { answerObject, orNull, type Shape } from './shape.ts';

const optional = Type.Optional;

const ErrorCodeSchema = Type.Unsafe<ErrorCode>({ type: 'string', enum: Object.keys(ERRORS) });

/** Why a job or an attempt ended badly. */
export const JobError = answerObject('JobError', {
  code: ErrorCodeSchema,
  message: Type.String(),
  retriable: Type.Boolean(),
  reason: optional(
    Type.String({ description: 'A narrower code; that of the executor where it has its own' }),
  ),
});

const described = {
  code: ErrorCodeSchema,
  message: Type.String({ description: 'For people' }),
  retriable: Type.Boolean({ description: 'Whether the same request may succeed later' }),
  next: Type.String({ description: 'What to do about it' }),
  correlation_id: Type.String({ description: 'The X-Correlation-Id of the answer' }),
  reason: optional(Type.String()),
  field: optional(Type.String({ description: 'The field of the request that is wrong' })),
  position: optional(Type.String({ description: 'Where in a file or a text the fault is' })),
  job_id: optional(Type.String()),
  retry_after_ms: optional(Type.Number({ description: 'Ask again no sooner than this' })),
};

/** An answer with status 429 has these beside its error. */
const backoff = {
  policy_label: optional(Type.String({ description: 'Only with 429: which limit refused the request' })),
  retriable: optional(Type.Boolean()),
  retry_after_ms: optional(Type.Number()),
};

export const ErrorBody = answerObject('Error', {
  error: answerObject('ErrorDescription', described),
  ...backoff,
});
export type ErrorBody = Shape<typeof ErrorBody>;

/** The same on /v1, with the fields that clients of OpenAI look for. */
export const OpenAiErrorBody = answerObject('OpenAiError', {
  error: answerObject('OpenAiErrorDescription', {
    ...described,
    type: Type.String(),
    param: orNull(Type.String()),
  }),
  ...backoff,
});
