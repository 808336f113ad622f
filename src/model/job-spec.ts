/**
 * What a caller may ask of a job beside its body. The schema of these fields is also the type of `AskRecord.spec`,
 * in the words of the HTTP surface: a field that is added here is checked, stored and given back by itself, and
 * needs only the code that acts on it and its line in docs/http-api.md.
 */
import { type Static, Type } from 'typebox';

/** Without `.` and `..`, which no URL can name. */
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
};

type Wishes = Static<ReturnType<typeof Type.Object<typeof SPEC_FIELDS>>>;

/** Fields that hold for every job: where the caller says nothing, a default does. */
type Defaulted = 'agent' | 'type' | 'priority' | 'score' | 'weight' | 'max_tries';

/** What was asked of a job. Fields that were not given are left out: most jobs give few, and there may be a million. */
export type JobSpec = Readonly<Omit<Wishes, Defaulted> & Required<Pick<Wishes, Defaulted>>>;

/** What a spec is made from: an absent field may be `undefined` too. */
export type GivenSpec = { readonly [K in keyof Wishes]?: Wishes[K] | undefined };

export type SpecDefaults = Pick<JobSpec, Defaulted>;

/**
 * The spec of a job, from a request that was checked or from a stored record: the fields of a spec and no others.
 * `defaults` must be an object of its own for every spec, because it becomes the spec: there is one for every job.
 */
export function specOf(given: GivenSpec, defaults: SpecDefaults): JobSpec {
  const spec = defaults as unknown as Record<string, unknown>;
  for (const name in given) {
    if (!Object.hasOwn(SPEC_FIELDS, name) || !Object.hasOwn(given, name)) continue;
    const value = given[name as keyof GivenSpec];
    if (value === undefined) continue;
    // A copy: the caller may go on changing its own object. No field is deeper than that.
    spec[name] = typeof value === 'object' ? { ...value } : value;
  }
  return defaults as JobSpec;
}
