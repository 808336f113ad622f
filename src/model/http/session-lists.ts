/** Schemas of the HTTP requests and answers about lists of sessions. */
import { Type } from 'typebox';
import { answerObject, Instant, instant, orNull, requestObject, type Shape } from './shape.ts';

const optional = Type.Optional;

/** The instant of the last use and the id of the last session of a page. */
const CURSOR = '^[0-9]{1,16}\\..{1,300}$';

export const SessionListQuery = requestObject({
  archived: optional(
    Type.Enum(['true', 'false'], {
      description: 'true: those in the archive, which were idle for long; false, the default: those in use',
    }),
  ),
  cursor: optional(Type.String({ pattern: CURSOR, description: 'The cursor of the previous page' })),
  limit: optional(Type.Integer({ minimum: 1, maximum: 1000, description: '100 by default' })),
});

export const SessionSummary = answerObject('SessionSummary', {
  session_id: Type.String(),
  created_at: Instant,
  used_at: instant('When it was last used'),
  turns: Type.Integer({ description: 'Ended tries of its jobs whose number of tokens is known' }),
  tokens_used: Type.Integer({ description: 'Tokens that the ended tries of its jobs have used' }),
  token_budget: orNull(
    Type.Integer({ description: 'Tokens that its jobs may use in total; null: the configured default' }),
  ),
  messages: Type.Integer({ description: 'Number of messages of its conversation' }),
  live_jobs: Type.Integer({ description: 'Number of its jobs that have not ended' }),
  archived: Type.Boolean({ description: 'Whether it is in the archive; the next use brings it back' }),
});
export type SessionSummary = Shape<typeof SessionSummary>;

export const SessionPage = answerObject('SessionPage', {
  sessions: Type.Array(SessionSummary, { description: 'The session that was used last comes first' }),
  cursor: optional(
    Type.String({
      description: 'Value of the parameter `cursor` for the next page; absent on the last page',
    }),
  ),
});
export type SessionPage = Shape<typeof SessionPage>;
