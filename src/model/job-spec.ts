/**
 * The options of a job that a caller may set. The schema of these fields is also the type of `AskRecord.spec`, with the
 * names of the HTTP API: a field added here is validated, stored and shown by OpenAPI without further code. It only needs
 * the code that acts on it, and a line in runtime/view.ts and model/http/jobs.ts if the job shows it
 * (docs/decisions/0016).
 */
import { type Static, Type } from 'typebox';

/** `.` and `..` are excluded: no URL can contain them as a path segment. */
export const JOB_ID = '^(?!\\.{1,2}$)[A-Za-z0-9._-]{1,128}$';
export const NAME = '^[A-Za-z0-9._:/@-]{1,128}$';
/** A name, or a reference such as hf:org/repo@rev::file=model.gguf. */
export const MODEL = '^[A-Za-z0-9][A-Za-z0-9._:/@=+-]{0,511}$';

/** Up to 128 characters without control characters. */
export const TAG_VALUE = '^[^\\u0000-\\u001f\\u007f]{0,128}$';
/** A tag as a filter names it. */
export const TAG = `${NAME.slice(0, -1)}=${TAG_VALUE.slice(1)}`;
/** The most jobs that one job may wait for. */
export const MAX_AFTER = 1000;

const optional = Type.Optional;

export const SPEC_FIELDS = {
  key: optional(
    Type.String({
      minLength: 1,
      maxLength: 255,
      description: 'At most one live job has this key; a submit with the key of a live job returns that job',
    }),
  ),
  agent: optional(
    Type.String({
      pattern: NAME,
      description: 'The agent that the job is for: fairness and limits are per agent; by default the caller',
    }),
  ),
  session_id: optional(
    Type.String({
      pattern: NAME,
      description: 'The conversation that the job belongs to: jobs of a session run one at a time, in order',
    }),
  ),
  parallel: optional(Type.Boolean({ description: 'Do not wait for the other jobs of the session' })),
  type: optional(Type.String({ pattern: NAME, description: 'Kind of work; "inference" by default' })),
  backend: optional(
    Type.String({
      pattern: NAME,
      description: 'Kind of backend that must run the job, such as "worker" or "function"',
    }),
  ),
  model: optional(
    Type.String({
      pattern: MODEL,
      description:
        'Model of the catalog, by id, alias or reference; if the catalog has only one, that is the default',
    }),
  ),
  region: optional(Type.String({ pattern: NAME, description: 'Preferred region' })),
  labels: optional(
    Type.Record(Type.String({ pattern: NAME }), Type.String({ maxLength: 128 }), {
      maxProperties: 16,
      additionalProperties: false,
      description: 'Labels that a backend must have to run the job',
    }),
  ),
  priority: optional(
    Type.Union([Type.Literal('interactive'), Type.Literal('batch')], {
      description: 'Interactive jobs go before batch jobs; "batch" by default',
    }),
  ),
  score: optional(
    Type.Number({
      minimum: -1e9,
      maximum: 1e9,
      description: 'Order among the jobs of one agent: the highest score first; 0 by default',
    }),
  ),
  weight: optional(
    Type.Number({
      minimum: 1,
      maximum: 1000,
      description:
        'Share of its agent that the job uses up: a job of weight 2 counts like two jobs; 1 by default',
    }),
  ),
  not_before: optional(
    Type.Integer({ minimum: 0, maximum: 8.64e15, description: 'Earliest start, in milliseconds since 1970' }),
  ),
  deadline_ms: optional(
    Type.Integer({
      minimum: 1,
      maximum: 3.2e10,
      description: 'A job that has not ended this many milliseconds after its submit is expired',
    }),
  ),
  timeout_ms: optional(
    Type.Integer({
      minimum: 1,
      maximum: 3.2e10,
      description: 'A try that has run this many milliseconds is stopped and counts as failed',
    }),
  ),
  max_tries: optional(
    Type.Integer({
      minimum: 1,
      maximum: 100,
      description: 'A job that has failed this many times is not tried again',
    }),
  ),
  after: optional(
    Type.Array(Type.String({ pattern: JOB_ID }), {
      minItems: 1,
      maxItems: MAX_AFTER,
      uniqueItems: true,
      description:
        'Ids of earlier jobs of the same tenant: the job waits until all of them have ended. If one ends otherwise than `after_policy` demands, the job is dead with reason "dependency"',
    }),
  ),
  after_policy: optional(
    Type.Union([Type.Literal('succeeded'), Type.Literal('ended')], {
      description: 'How the jobs of `after` must end; "succeeded" by default, "ended" takes any end',
    }),
  ),
  batch: optional(
    Type.String({
      pattern: NAME,
      description: 'Id of the batch that the job belongs to; the first job of a batch makes it',
    }),
  ),
  tags: optional(
    Type.Record(Type.String({ pattern: NAME }), Type.String({ pattern: TAG_VALUE }), {
      maxProperties: 16,
      additionalProperties: false,
      description: 'Tags by which people find jobs; they have no effect on where a job runs, unlike `labels`',
    }),
  ),
  parent_id: optional(
    Type.String({ pattern: JOB_ID, description: 'The parent job; cancelling it cancels this job too' }),
  ),
  on_disconnect: optional(
    Type.Union([Type.Literal('cancel'), Type.Literal('continue')], {
      description:
        'What happens when the last client that follows the job disconnects; by default cancel for interactive, continue for batch',
    }),
  ),
  after_output: optional(
    Type.Union([Type.Literal('fail'), Type.Literal('retry')], {
      description:
        'Whether a job is retried after a failed try that had produced output; by default retry for batch, fail for interactive',
    }),
  ),
  on_unknown: optional(
    Type.Union([Type.Literal('hold'), Type.Literal('retry'), Type.Literal('fail')], {
      description:
        'What happens if it cannot be learned whether an attempt ran; hold waits for an operator to resolve the job. By default hold on backends that cost money, retry on others',
    }),
  ),
};

type SpecFields = Static<ReturnType<typeof Type.Object<typeof SPEC_FIELDS>>>;

/** Fields that every spec has: a default is filled in if the caller gives none. */
type Defaulted = 'agent' | 'type' | 'priority' | 'score' | 'weight' | 'max_tries';

/** The options of a job. Absent fields are left out: most jobs set few, and there may be a million jobs. */
export type JobSpec = Readonly<Omit<SpecFields, Defaulted> & Required<Pick<SpecFields, Defaulted>>>;

/** The fields that a spec is built from: an absent field may also be `undefined`. */
export type GivenSpec = { readonly [K in keyof SpecFields]?: SpecFields[K] | undefined };

export type SpecDefaults = Pick<JobSpec, Defaulted>;

/** Copies lists and objects, which the caller may change later. No field is nested deeper than this copy. */
function copied(value: unknown): unknown {
  if (Array.isArray(value)) return [...value];
  return typeof value === 'object' ? { ...value } : value;
}

/**
 * Builds the spec of a job from a validated request or a stored record; other fields are ignored. `defaults` becomes the
 * spec itself, which saves an object per job: pass a new one for every call.
 */
export function specOf(given: GivenSpec, defaults: SpecDefaults): JobSpec {
  const spec = defaults as unknown as Record<string, unknown>;
  for (const name in given) {
    if (!Object.hasOwn(SPEC_FIELDS, name) || !Object.hasOwn(given, name)) continue;
    const value = given[name as keyof GivenSpec];
    if (value === undefined) continue;
    spec[name] = copied(value);
  }
  return defaults as JobSpec;
}
