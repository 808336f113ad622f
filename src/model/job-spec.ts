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

const optional = Type.Optional;

export const SPEC_FIELDS = {
  key: optional(Type.String({ minLength: 1, maxLength: 255, description: 'At most one live job has it' })),
  agent: optional(Type.String({ pattern: NAME, description: 'Who asks: fairness and limits are per agent' })),
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
        'A model of the catalog, by id, alias or reference; by default the only one of the catalog',
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
  priority: optional(Type.Union([Type.Literal('interactive'), Type.Literal('batch')])),
  score: optional(
    Type.Number({ minimum: -1e9, maximum: 1e9, description: 'Orders the jobs of one agent; higher first' }),
  ),
  weight: optional(
    Type.Number({
      minimum: 1,
      maximum: 1000,
      description: 'How much the job counts in the fair order of agents',
    }),
  ),
  not_before: optional(
    Type.Integer({ minimum: 0, maximum: 8.64e15, description: 'Milliseconds since 1970' }),
  ),
  deadline_ms: optional(
    Type.Integer({
      minimum: 1,
      maximum: 3.2e10,
      description: 'The job ends this long after its submit at the latest',
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
        'Whether a try that has produced output may be retried; by default retry for batch, fail for interactive',
    }),
  ),
  on_unknown: optional(Type.Union([Type.Literal('hold'), Type.Literal('retry'), Type.Literal('fail')])),
};

type SpecFields = Static<ReturnType<typeof Type.Object<typeof SPEC_FIELDS>>>;

/** Fields that every spec has: a default is filled in if the caller gives none. */
type Defaulted = 'agent' | 'type' | 'priority' | 'score' | 'weight' | 'max_tries';

/** The options of a job. Absent fields are left out: most jobs set few, and there may be a million jobs. */
export type JobSpec = Readonly<Omit<SpecFields, Defaulted> & Required<Pick<SpecFields, Defaulted>>>;

/** The fields that a spec is built from: an absent field may also be `undefined`. */
export type GivenSpec = { readonly [K in keyof SpecFields]?: SpecFields[K] | undefined };

export type SpecDefaults = Pick<JobSpec, Defaulted>;

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
    // Copy objects, which the caller may change later. No field is nested deeper than this copy.
    spec[name] = typeof value === 'object' ? { ...value } : value;
  }
  return defaults as JobSpec;
}
