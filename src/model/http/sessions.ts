/** Conversations on the wire. */
import { Type } from 'typebox';
import { answerObject, Instant, orNull, requestObject, type Shape } from './shape.ts';

export const SetSession = requestObject({
  token_budget: orNull(Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })),
});

export const SessionView = answerObject('Session', {
  session_id: Type.String(),
  created_at: Instant,
  used_at: Instant,
  turns: Type.Integer(),
  tokens_used: Type.Integer(),
  tokens_reserved: Type.Integer(),
  token_budget: orNull(Type.Integer()),
  backend: orNull(Type.String({ description: 'The worker that has its context' })),
  jobs: Type.Array(Type.Object({ job_id: Type.String(), state: Type.String() })),
});
export type SessionView = Shape<typeof SessionView>;
