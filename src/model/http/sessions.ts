/** Schemas of the HTTP requests and answers about sessions: conversations that consist of several jobs. */
import { Type } from 'typebox';
import { answerObject, Instant, instant, orNull, requestObject, type Shape } from './shape.ts';

export const SetSession = requestObject({
  token_budget: orNull(
    Type.Integer({
      minimum: 0,
      maximum: Number.MAX_SAFE_INTEGER,
      description: 'Tokens that the jobs of the session may use in total; null: the configured default',
    }),
  ),
});

/** Jobs that the view of a session lists. */
export const MAX_LISTED_JOBS = 1000;

export const SessionView = answerObject('Session', {
  session_id: Type.String(),
  created_at: Instant,
  used_at: instant('When its tokens were last counted, at the end of a try'),
  turns: Type.Integer({ description: 'Ended tries of its jobs whose number of tokens is known' }),
  tokens_used: Type.Integer({ description: 'Tokens that the ended tries of its jobs have used' }),
  tokens_reserved: Type.Integer({ description: 'Estimated tokens of its jobs that have not ended' }),
  token_budget: orNull(
    Type.Integer({
      description: 'Tokens that its jobs may use in total; null: the configured default',
    }),
  ),
  backend: orNull(
    Type.String({ description: 'Backend that ran its last job and may still have its context in memory' }),
  ),
  jobs: Type.Array(Type.Object({ job_id: Type.String(), state: Type.String() }), {
    description: `The first ${MAX_LISTED_JOBS} of its jobs that have not ended; a list of jobs has all of them`,
  }),
  live_jobs: Type.Integer({ description: 'Number of its jobs that have not ended' }),
});
export type SessionView = Shape<typeof SessionView>;
