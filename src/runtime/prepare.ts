/** Turns a request into a checked submission: does everything that does not need the engine's state. */
import type { Submission } from '../core/admission/submission.ts';
import { checker } from '../kit/check.ts';
import { excessOf, MAX_DEPTH, MAX_VALUES } from '../kit/depth.ts';
import { stableHash } from '../kit/hash.ts';
import { OrchdError } from '../model/errors.ts';
import { JOB_ID, specOf } from '../model/job-spec.ts';
import { type Body, DEFAULT_TENANT, TENANT, uidOf } from '../model/records.ts';
import { SubmitRequest } from '../model/submit.ts';
import { estimateTokens } from './estimate.ts';

export interface Caller {
  readonly tenant?: string;
  /** The agent of the job, unless the request names one. */
  readonly principal?: string;
  readonly submittedBy?: string;
  readonly correlationId?: string;
  /** The size and depth of the request were already checked when it was parsed. */
  readonly isMeasured?: boolean;
}

/** A submission whose payload and `known` fields are still to be filled in. */
export type DraftSubmission = { -readonly [K in keyof Submission]: Submission[K] };

const check = checker(SubmitRequest);
const PAYLOAD_FIELDS = ['prompt', 'messages', 'max_tokens', 'temperature', 'seed'] as const;

export function prepare(
  value: unknown,
  caller: Caller,
  newId: () => string,
  maxTries: number,
): { readonly submission: DraftSubmission; readonly payloadText: string } {
  if (!caller.isMeasured) checkShape(value);
  const request = check(value);
  const payloadText = payloadOf(request);
  const isInference = request.type === undefined || request.type === 'inference';
  const estimate = isInference ? estimateTokens(request.payload ?? request) : undefined;
  checkKey(request.key);
  const submission: DraftSubmission = {
    id: request.job_id ?? newId(),
    tenant: checkTenant(caller.tenant ?? DEFAULT_TENANT),
    submittedBy: caller.submittedBy ?? caller.principal ?? 'anonymous',
    spec: specOf(request, {
      agent: caller.principal ?? 'anonymous',
      type: 'inference',
      priority: 'batch',
      score: 0,
      weight: 1,
      max_tries: maxTries,
    }),
    payload: 'null',
    payloadBytes: Buffer.byteLength(payloadText),
    modelRef: undefined,
    // Without a model there is no context length to compare it with.
    contextTokens: request.model === undefined ? undefined : estimate?.contextTokens,
    tokens: estimate?.tokens,
    hash: request.job_id === undefined ? undefined : bodyHash(request),
    correlationId: caller.correlationId,
    forceRetry: request.force_retry ?? false,
    bodyStored: false,
    known: undefined,
  };
  return { submission, payloadText };
}

function checkShape(value: unknown): void {
  const excess = excessOf(value);
  if (excess === 'too deep') {
    throw new OrchdError('INVALID_PARAMS', `the request is nested deeper than ${MAX_DEPTH} levels`);
  }
  if (excess) throw new OrchdError('TOO_LARGE', `the request has more than ${MAX_VALUES} values`);
}

/** `payload` is undefined if it was not stored, because the job will be refused or exists already. */
export function withPayload(
  submission: DraftSubmission,
  payload: Body | undefined,
  known: Submission['known'],
): Submission {
  submission.payload = payload ?? 'null';
  submission.bodyStored = payload !== undefined;
  submission.known = known;
  return submission;
}

function payloadOf(request: SubmitRequest): string {
  if (request.payload === undefined) return jsonText(inferenceOf(request), 'payload');
  for (const field of PAYLOAD_FIELDS) {
    if (request[field] === undefined) continue;
    throw new OrchdError('INVALID_PARAMS', `"payload" and "${field}" cannot be given together`, { field });
  }
  return jsonText(request.payload, 'payload');
}

function inferenceOf(request: SubmitRequest): object {
  const payload: Record<string, unknown> = {};
  for (const field of PAYLOAD_FIELDS) if (request[field] !== undefined) payload[field] = request[field];
  return payload;
}

/** Serialises a value as JSON; `field` is named in the error if that is impossible. */
export function jsonText(value: unknown, field: string): string {
  try {
    return JSON.stringify(value) ?? 'null';
  } catch {
    throw new OrchdError('INVALID_PARAMS', `"${field}" cannot be written as JSON`, { field });
  }
}

/** A lone surrogate is stored as the same replacement character by every database: two such keys would become one. */
function checkKey(key: string | undefined): void {
  if (key === undefined || key.isWellFormed()) return;
  throw new OrchdError('INVALID_PARAMS', '"key" must be well-formed Unicode', { field: 'key' });
}

const isTenant = new RegExp(TENANT);

/** Checks the name of a tenant, which is part of tokens and job uids. */
export function checkTenant(tenant: string): string {
  if (tenant === DEFAULT_TENANT || isTenant.test(tenant)) return tenant;
  throw new OrchdError(
    'INVALID_PARAMS',
    'the name of a tenant has only lower-case letters, digits, - and _',
    {
      field: 'tenant',
    },
  );
}

const isJobId = new RegExp(JOB_ID);

/** The uid of a job from the id that a caller gave; throws NOT_FOUND for a text that cannot be a job id. */
export function uidFor(tenant: string, jobId: string): string {
  if (!isJobId.test(jobId)) throw new OrchdError('NOT_FOUND', 'there is no such job');
  return uidOf(checkTenant(tenant), jobId);
}

function bodyHash(request: SubmitRequest): string {
  const { force_retry: _, ...body } = request;
  return stableHash(body);
}
