/** Makes the request for a brain out of a job of a spool. */
import { stableHash } from '../../kit/hash.ts';
import { isObject } from '../../kit/record-file.ts';

/** A longer name would not fit into a job id of 128 characters, beside the id of the spool and the number. */
const PLAIN_NAME = /^[A-Za-z0-9._-]{1,80}$/;
const HASHED = 'sha256-';

/**
 * The id at the brain of the `n`-th job for this folder. No two names get the same id: a name that could be taken for a
 * hashed one is hashed itself.
 */
export function brainJobId(spoolId: string, name: string, n: number): string {
  const isPlain = PLAIN_NAME.test(name) && !name.startsWith(HASHED);
  return `spool.${spoolId}.${isPlain ? name : HASHED + stableHash(name)}.${n}`;
}

export type BrainRequest =
  | { readonly is: 'request'; readonly body: Readonly<Record<string, unknown>> }
  | { readonly is: 'unusable'; readonly why: string };

/** Fields with which a request finds a job that exists already: the folder is what names the job here. */
const NAMING_FIELDS = ['job_id', 'key'] as const;

/** `prompt.json` is a request as POST /v2/tasks takes it, or a text, which is the prompt. */
export function brainRequest(prompt: unknown, jobId: string): BrainRequest {
  const request = typeof prompt === 'string' ? { prompt } : prompt;
  if (!isObject(request) || Array.isArray(request))
    return { is: 'unusable', why: 'prompt.json is neither a request for a brain nor a text' };
  const fields = request as Readonly<Record<string, unknown>>;
  const naming = NAMING_FIELDS.find((field) => Object.hasOwn(fields, field));
  if (naming !== undefined)
    return { is: 'unusable', why: `prompt.json has a ${naming}: the name of the folder names the job` };
  // The job goes on while no agent follows it, whatever its priority.
  return { is: 'request', body: { ...fields, job_id: jobId, on_disconnect: 'continue' } };
}
