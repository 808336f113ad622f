/** Schemas of the HTTP requests and answers about sessions: conversations that consist of several jobs. */
import { Type } from 'typebox';
import { ConversationMessage } from '../conversation.ts';
import { SPEC_FIELDS } from '../job-spec.ts';
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

const optional = Type.Optional;
const Words = Type.String({ maxLength: 256 });

/** Characters of the preferences as JSON text. */
export const MAX_PREFERENCES_CHARS = 4096;

export const SessionMetadata = Type.Object(
  {
    mode: optional(Words),
    channel: optional(Words),
    preferences: optional(
      Type.Record(Type.String({ maxLength: 64 }), Type.Unknown(), {
        description: `Any values, at most ${MAX_PREFERENCES_CHARS} characters as JSON`,
      }),
    ),
  },
  { additionalProperties: false, description: 'What a front end keeps about the session' },
);
export type SessionMetadata = Shape<typeof SessionMetadata>;

export const CreateSession = requestObject({
  session_id: SPEC_FIELDS.session_id,
  metadata: optional(SessionMetadata),
  messages: optional(
    Type.Array(ConversationMessage, {
      maxItems: 10_000,
      description: 'A conversation that it goes on with, such as that of an export',
    }),
  ),
});
export type CreateSession = Shape<typeof CreateSession>;

export const ForkSession = requestObject({ session_id: SPEC_FIELDS.session_id });

/** Jobs that the view of a session lists. */
export const MAX_LISTED_JOBS = 1000;

export const SessionView = answerObject('Session', {
  session_id: Type.String(),
  created_at: Instant,
  used_at: instant('When it was last used: created, changed, brought back, or at the end of a try'),
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
  messages: Type.Integer({ description: 'Number of messages of its conversation' }),
  metadata: SessionMetadata,
  archived: Type.Optional(
    Type.Literal(true, {
      description: 'It was idle for long and is in the archive; the next use brings it back',
    }),
  ),
});
export type SessionView = Shape<typeof SessionView>;

/** A message of a conversation, in OpenAI's form. */
export const SessionMessage = answerObject('SessionMessage', {
  role: Type.String(),
  content: Type.String(),
  tool_calls: optional(Type.Array(Type.Unknown())),
  tool_call_id: optional(Type.String()),
});

export const SessionMessages = answerObject('SessionMessages', {
  session_id: Type.String(),
  messages: Type.Array(SessionMessage),
});
export type SessionMessages = Shape<typeof SessionMessages>;

export const ExportedSession = answerObject('ExportedSession', {
  session: SessionView,
  messages: Type.Array(SessionMessage),
});
export type ExportedSession = Shape<typeof ExportedSession>;
