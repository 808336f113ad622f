/** Job requests out of the entries of `:ingest_events`: jobs as they are sent to POST /v2/tasks, or events and their rules. */
import type { Entry } from '../../backends/stream/entry.ts';
import type { EventRule } from '../../config/redis.ts';
import type { Timers } from '../../kit/env/env.ts';
import { type BodySize, ONE_TURN_BYTES } from '../../kit/slices.ts';
import { OrchdError } from '../../model/errors.ts';
import type { SubmitRequest } from '../../model/submit.ts';
import { parseJsonBody, parseLargeBody, type RequestBody } from '../../wire/json-body.ts';

/** The tag with the id of the entry that a job was made from. */
export const ENTRY_TAG = 'redis_entry';
const MAX_TEXT_BYTES = 2 ** 20;

export interface Ingested {
  readonly request: SubmitRequest;
  readonly size: BodySize;
}

type Fields = Readonly<Record<string, unknown>>;

/**
 * The entry has either `job`, the JSON of a request, or `event`, a name with a rule, and `payload`, its JSON. Throws
 * INVALID_PARAMS or TOO_LARGE where it has neither.
 */
export async function requestIn(
  { id, fields }: Entry,
  rules: readonly EventRule[],
  timers: Timers,
): Promise<Ingested> {
  const job = fields.get('job');
  const event = fields.get('event');
  if ((job === undefined) === (event === undefined))
    throw new OrchdError('INVALID_PARAMS', 'an entry needs the field job or the field event');
  const { value, size } = await parsed(job ?? fields.get('payload'), timers);
  const given =
    event === undefined ? value : { ...(value !== undefined && { payload: value }), ...jobOf(event, rules) };
  if (typeof given !== 'object' || given === null || Array.isArray(given))
    throw new OrchdError('INVALID_PARAMS', 'the field job is no JSON object');
  const { job_id: own, tags } = given as Fields;
  const isObject = typeof tags === 'object' && tags !== null && !Array.isArray(tags);
  const request = {
    ...given,
    job_id: own ?? `ingest-${id}`,
    // Tags of another kind are left for the check of the request, which refuses them.
    tags: tags === undefined || isObject ? { ...tags, [ENTRY_TAG]: id } : tags,
  };
  return { request: request as SubmitRequest, size };
}

function jobOf(name: string, rules: readonly EventRule[]): Fields {
  const rule = rules.find(({ event }) => event === name);
  if (rule) return rule.job;
  throw new OrchdError('INVALID_PARAMS', 'no rule of redis.events has the name of the event');
}

async function parsed(text: string | undefined, timers: Timers): Promise<RequestBody> {
  if (text === undefined) return { value: undefined, size: 'small' };
  const bytes = Buffer.from(text);
  if (bytes.length > MAX_TEXT_BYTES)
    throw new OrchdError('TOO_LARGE', `a field is longer than ${MAX_TEXT_BYTES} bytes`);
  if (bytes.length > ONE_TURN_BYTES) return parseLargeBody([bytes], timers);
  return { value: parseJsonBody(bytes), size: 'small' };
}
