/**
 * The requests about jobs: submit, list and resolve. One schema each for the library, HTTP, the command line and the
 * OpenAPI page.
 */
import { type Static, Type } from 'typebox';
import { AnyObject } from './http/shape.ts';
import { JOB_ID, NAME, SPEC_FIELDS, TAG } from './job-spec.ts';

const optional = Type.Optional;

/** Larger than any answer. The requested tokens are reserved, so without a limit one job could exhaust a budget. */
export const MAX_TOKENS = 10_000_000;

export const SubmitRequest = Type.Object(
  {
    ...SPEC_FIELDS,
    not_before: optional(
      Type.Union([
        SPEC_FIELDS.not_before,
        Type.String({
          maxLength: 40,
          description: 'Earliest start as an ISO 8601 time with its offset: 2026-12-01T08:00+01:00',
        }),
      ]),
    ),
    job_id: optional(
      Type.String({
        pattern: JOB_ID,
        description: 'Id chosen by the caller: a submit with the same id and body returns the same job',
      }),
    ),
    force_retry: optional(
      Type.Boolean({ description: 'Submit even if a job with this key has recently failed for good' }),
    ),
    lease: optional(
      Type.Object(
        { token: Type.String({ minLength: 1, maxLength: 64 }), fence: Type.Integer({ minimum: 0 }) },
        {
          additionalProperties: false,
          description:
            'The lease that the caller works under: a new job is refused with LEASE_NOT_HELD if it has ended',
        },
      ),
    ),
    wait_for_backend: optional(
      Type.Boolean({
        description:
          'Admit the job even if nothing here could run it: it waits for a backend that is to come',
      }),
    ),
    payload: optional(
      Type.Unknown({
        description:
          'Input for the backend: any JSON value. Without it, the input is prompt, messages, max_tokens, temperature and seed',
      }),
    ),
    prompt: optional(Type.String({ description: 'Text to complete' })),
    messages: optional(
      Type.Array(AnyObject, {
        minItems: 1,
        maxItems: 10_000,
        description: "Chat messages in OpenAI's format",
      }),
    ),
    max_tokens: optional(
      Type.Integer({
        minimum: 1,
        maximum: MAX_TOKENS,
        description: 'Maximum number of tokens of the answer',
      }),
    ),
    temperature: optional(Type.Number({ minimum: 0, maximum: 2 })),
    seed: optional(Type.Integer()),
  },
  { title: 'SubmitRequest', additionalProperties: false },
);

export type SubmitRequest = Static<typeof SubmitRequest>;

const Tag = Type.String({ pattern: TAG, description: 'A tag as `name=value`' });

/** One tag, or several of which a job must have all. */
export const TagFilter = Type.Union([Tag, Type.Array(Tag, { maxItems: 16 })]);

/** By what jobs are found. */
export const JobFilter = {
  state: optional(Type.String({ description: 'One state, or several separated by commas' })),
  type: optional(Type.String({ pattern: NAME })),
  session_id: optional(Type.String({ pattern: NAME })),
  key: optional(Type.String({ minLength: 1, maxLength: 255 })),
  agent: optional(Type.String({ pattern: NAME })),
  batch: optional(Type.String({ pattern: NAME })),
  root: optional(
    Type.String({ pattern: NAME, description: 'A topmost job: the jobs below it, at any depth' }),
  ),
  tag: optional(TagFilter),
};

/** Which jobs to list, newest first. */
export const ListRequest = Type.Object(
  {
    ...JobFilter,
    cursor: optional(
      Type.String({ pattern: '^[0-9]{1,16}$', description: 'The cursor of the previous page' }),
    ),
    id_prefix: optional(
      Type.String({
        pattern: '^[A-Za-z0-9._-]{4,128}$',
        description:
          'Only the job with exactly this id or, if there is none, jobs whose id begins with it, in one page; goes only with `limit`',
      }),
    ),
    limit: optional(
      Type.Integer({ minimum: 1, maximum: 1000, description: 'Maximum number of jobs per page' }),
    ),
  },
  { additionalProperties: false },
);

export type ListRequest = Static<typeof ListRequest>;

/** The outcome that an operator gives to a stale job. */
export const ResolveRequest = Type.Union([
  Type.Object(
    { as: Type.Literal('retry', { description: 'The job is queued again' }) },
    { additionalProperties: false },
  ),
  Type.Object(
    {
      as: Type.Literal('failed'),
      message: optional(Type.String({ maxLength: 1000, description: 'Message of the error of the job' })),
    },
    { additionalProperties: false },
  ),
  Type.Object(
    {
      as: Type.Literal('succeeded'),
      result: optional(Type.Unknown({ description: 'Result of the job; null by default' })),
    },
    { additionalProperties: false },
  ),
]);

export type ResolveRequest = Static<typeof ResolveRequest>;
