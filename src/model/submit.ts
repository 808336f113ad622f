/**
 * The request to run a job: one schema for the library, HTTP, the command line and the OpenAPI page.
 */
import { type Static, Type } from 'typebox';

/** Without `.` and `..`, which no URL can name. */
export const JOB_ID = '^(?!\\.{1,2}$)[A-Za-z0-9._-]{1,128}$';
export const TENANT = '^[a-z0-9][a-z0-9_-]{0,63}$';
const NAME = '^[A-Za-z0-9._:/@-]{1,128}$';

/** A name, or a reference such as hf:org/repo@rev::file=model.gguf. */
export const MODEL = '^[A-Za-z0-9][A-Za-z0-9._:/@=+-]{0,511}$';

const optional = Type.Optional;

/** More than any model can say in one answer: what is asked for is reserved, and must not outlast everybody. */
export const MAX_TOKENS = 10_000_000;

export const SubmitRequest = Type.Object(
  {
    job_id: optional(
      Type.String({
        pattern: JOB_ID,
        description: 'Chosen by the caller: the same id and body give the same job',
      }),
    ),
    key: optional(Type.String({ minLength: 1, maxLength: 255, description: 'At most one live job has it' })),
    force_retry: optional(
      Type.Boolean({ description: 'Submit although the key failed for good a short while ago' }),
    ),
    agent: optional(
      Type.String({ pattern: NAME, description: 'Who asks: fairness and limits are per agent' }),
    ),
    session_id: optional(
      Type.String({ pattern: NAME, description: 'Jobs of a session run one at a time, in order' }),
    ),
    parallel: optional(Type.Boolean({ description: 'Do not wait for the other jobs of the session' })),
    type: optional(
      Type.String({ pattern: NAME, description: 'What kind of work it is; inference by default' }),
    ),
    backend: optional(Type.String({ pattern: NAME, description: 'Only backends of this kind' })),
    model: optional(
      Type.String({
        pattern: MODEL,
        description:
          'A model of the catalog, by id, alias or reference; the only one there is where none is named',
      }),
    ),
    region: optional(Type.String({ pattern: NAME, description: 'Where it should run if it can' })),
    labels: optional(
      Type.Record(Type.String({ pattern: NAME }), Type.String({ maxLength: 128 }), {
        maxProperties: 16,
        additionalProperties: false,
        description: 'Labels that a backend must have',
      }),
    ),
    payload: optional(Type.Unknown({ description: 'What the backend gets; any JSON value' })),
    prompt: optional(Type.String()),
    messages: optional(
      Type.Array(Type.Record(Type.String(), Type.Unknown()), { minItems: 1, maxItems: 10_000 }),
    ),
    max_tokens: optional(Type.Integer({ minimum: 1, maximum: MAX_TOKENS })),
    temperature: optional(Type.Number({ minimum: 0, maximum: 2 })),
    seed: optional(Type.Integer()),
    priority: optional(Type.Union([Type.Literal('interactive'), Type.Literal('batch')])),
    score: optional(
      Type.Number({ minimum: -1e9, maximum: 1e9, description: 'Orders the jobs of one agent; higher first' }),
    ),
    weight: optional(
      Type.Number({ minimum: 1, maximum: 1000, description: 'What it costs its agent in the fair order' }),
    ),
    not_before: optional(
      Type.Integer({ minimum: 0, maximum: 8.64e15, description: 'Milliseconds since 1970' }),
    ),
    deadline_ms: optional(
      Type.Integer({
        minimum: 1,
        maximum: 3.2e10,
        description: 'Ends, run or not, this long after the submit',
      }),
    ),
    timeout_ms: optional(
      Type.Integer({ minimum: 1, maximum: 3.2e10, description: 'How long one try may run' }),
    ),
    max_tries: optional(Type.Integer({ minimum: 1, maximum: 100 })),
    parent_id: optional(Type.String({ pattern: JOB_ID, description: 'Cancelled with this job' })),
    on_disconnect: optional(Type.Union([Type.Literal('cancel'), Type.Literal('continue')])),
    after_output: optional(
      Type.Union([Type.Literal('fail'), Type.Literal('retry')], {
        description:
          'Whether a try that has said something may be followed by another; retry for batch, fail for interactive',
      }),
    ),
    on_unknown: optional(Type.Union([Type.Literal('hold'), Type.Literal('retry'), Type.Literal('fail')])),
  },
  { additionalProperties: false },
);

export type SubmitRequest = Static<typeof SubmitRequest>;

/** Which jobs to list, newest first. */
export const ListRequest = Type.Object(
  {
    state: optional(Type.String({ description: 'One state, or several with commas between' })),
    type: optional(Type.String({ pattern: NAME })),
    session_id: optional(Type.String({ pattern: NAME })),
    key: optional(Type.String({ minLength: 1, maxLength: 255 })),
    agent: optional(Type.String({ pattern: NAME })),
    cursor: optional(Type.String({ pattern: '^[0-9]{1,16}$' })),
    limit: optional(Type.Integer({ minimum: 1, maximum: 1000 })),
  },
  { additionalProperties: false },
);

export type ListRequest = Static<typeof ListRequest>;

/** How an operator settles a job whose outcome is unknown. */
export const ResolveRequest = Type.Union([
  Type.Object({ as: Type.Literal('retry') }, { additionalProperties: false }),
  Type.Object(
    { as: Type.Literal('failed'), message: optional(Type.String({ maxLength: 1000 })) },
    { additionalProperties: false },
  ),
  Type.Object(
    { as: Type.Literal('succeeded'), result: optional(Type.Unknown()) },
    { additionalProperties: false },
  ),
]);

export type ResolveRequest = Static<typeof ResolveRequest>;
