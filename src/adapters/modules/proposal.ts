/**
 * The request of a proposal. Each gets a job id, so that proposing the same work again finds the first job, whether it
 * still runs or has ended: a `job_id` of its own, or one made from the name of the module and the `key`. A proposal
 * without both is named by all that it says. A key alone would not do: it names live jobs only.
 */
import type { Timers } from '../../kit/env/env.ts';
import { stableHash, stableHashInSlices } from '../../kit/hash.ts';
import { newMeter } from '../../kit/json-writer.ts';
import { type BodySize, inSlices } from '../../kit/slices.ts';
import type { SubmitRequest } from '../../model/submit.ts';

/** The tag by which jobs of modules are found. */
export const MODULE_TAG = 'module';

/** The name under which a module submits, and the agent of its jobs unless a proposal names another one. */
export const principalOf = (module: string): string => `module/${module}`;

export interface Proposal {
  readonly line: number;
  readonly request: SubmitRequest;
  /** The job id was made here: a job that has it already is the same work, even if the request has changed. */
  readonly hasMadeId: boolean;
}

const HASH_CHARS = 40;

export async function proposalOf(
  module: string,
  given: Readonly<Record<string, unknown>>,
  { line, size, timers }: { readonly line: number; readonly size: BodySize; readonly timers: Timers },
): Promise<Proposal> {
  const { job_id: id, key, tags } = given;
  const isObject = typeof tags === 'object' && tags !== null && !Array.isArray(tags);
  // Tags of another kind are left for the check of the request, which refuses them.
  const tagged = tags === undefined || isObject ? { ...tags, [MODULE_TAG]: module } : tags;
  const madeId = id === undefined ? `module-${module}-${await hashOf(key ?? given, size, timers)}` : id;
  const request = { ...given, job_id: madeId, tags: tagged } as SubmitRequest;
  return { line, request, hasMadeId: id === undefined };
}

async function hashOf(work: unknown, size: BodySize, timers: Timers): Promise<string> {
  const hash =
    size === 'large' ? await inSlices(stableHashInSlices(work, newMeter()), timers) : stableHash(work);
  return hash.slice(0, HASH_CHARS);
}
