/** Turns a request into a checked submission: does everything that does not need the engine's state. */
import { hash } from 'node:crypto';
import type { Submission } from '../core/admission/submission.ts';
import { checker } from '../kit/check.ts';
import { excessOf, MAX_DEPTH, MAX_KEYS, MAX_VALUES } from '../kit/depth.ts';
import type { Timers } from '../kit/env/env.ts';
import { stableHash, stableHashInSlices } from '../kit/hash.ts';
import { parseInstant } from '../kit/instant.ts';
import { textInSlices } from '../kit/json-writer.ts';
import { type BodySize, inSlices, type Sliced, type SliceMeter } from '../kit/slices.ts';
import type { Body } from '../model/body.ts';
import { OrchdError } from '../model/errors.ts';
import { type GivenSpec, JOB_ID, NAME, specOf } from '../model/job-spec.ts';
import { DEFAULT_TENANT, TENANT, uidOf } from '../model/records.ts';
import { APPROVED_TAG, RUN_JOB_TYPES, RUN_TYPE } from '../model/run-jobs.ts';
import { SubmitRequest } from '../model/submit.ts';
import type { Trace } from '../model/trace.ts';
import { estimateInSlices, estimateTokens, type TokenEstimate } from './estimate.ts';

export interface Caller {
  readonly tenant?: string;
  /** The agent of the job, unless the request names one. */
  readonly principal?: string;
  readonly submittedBy?: string;
  /** The models that it may use; undefined: all of them, and jobs without a model. */
  readonly models?: readonly string[] | undefined;
  readonly correlationId?: string;
  readonly trace?: Trace | undefined;
  /** That of the JSON text that the request was parsed from; its shape was checked then. */
  readonly bodySize?: BodySize;
  /** Whether a job that nothing here could run is refused, unless it says `wait_for_backend`. */
  readonly mustBeRunnable?: boolean;
  /**
   * It is a module: a part of the queue is kept for others, and no waiting job is dropped for its own. What is refused is
   * not reported job by job: the module proposes it again and again, and counts it.
   */
  readonly isModule?: boolean;
  /** The jobs are those of a wait, which always writes its requests in the same way. */
  readonly isWait?: boolean;
}

/** A submission whose payload and `known` fields are still to be filled in. */
export type DraftSubmission = { -readonly [K in keyof Submission]: Submission[K] };

const check = checker(SubmitRequest);
const PAYLOAD_FIELDS = ['prompt', 'messages', 'max_tokens', 'temperature', 'seed'] as const;

export interface Prepared {
  readonly submission: DraftSubmission;
  readonly payloadText: string;
  /** No job has ever had its id, though it has a hash: the history is not asked for it. */
  readonly isNewId?: boolean;
}

export function prepare(value: unknown, caller: Caller, newId: () => string, maxTries: number): Prepared {
  if (caller.bodySize === undefined) checkShape(value);
  const request = check(value);
  const payload = payloadOf(request, caller);
  const payloadText = jsonText(payload, 'payload');
  const hash = request.job_id === undefined ? undefined : hashOf(request, caller, payloadText);
  const estimate = isInference(request) ? estimateTokens(payload) : undefined;
  return draft(request, caller, { payloadText, hash, estimate, newId, maxTries });
}

/**
 * Throws if a request that was parsed by parseJsonBody would be refused whatever the state of the brain is: the command
 * line checks files with it before it submits them.
 */
export function checkRequest(value: unknown): SubmitRequest {
  const request = check(value);
  prepare(value, { mustBeRunnable: true }, () => 'unused', 1);
  return request;
}

/** Units of a SliceMeter for checking one request, which may have MAX_KEYS fields, and drafting its submission. */
const UNITS_PER_REQUEST = 500;

/** The same as `prepare` in slices, for a request that was parsed from a large JSON text. */
export function* prepareInSlices(
  value: unknown,
  caller: Caller,
  newId: () => string,
  maxTries: number,
  meter: SliceMeter,
): Sliced<Prepared> {
  if (meter.spend(UNITS_PER_REQUEST)) yield;
  const request = check(value);
  const payload = payloadOf(request, caller);
  const payloadText = yield* textInSlices(payload, meter);
  const hash =
    request.job_id === undefined ? undefined : yield* stableHashInSlices(hashedPart(request), meter);
  const estimate = isInference(request) ? yield* estimateInSlices(payload, meter) : undefined;
  return draft(request, caller, { payloadText, hash, estimate, newId, maxTries });
}

/** A job below another one is in its session, unless it names one: its payload is sealed with the key of that session. */
export function inSession({ submission, payloadText }: Prepared, session: string | undefined): Prepared {
  if (session !== undefined) submission.spec = { session_id: session, ...submission.spec };
  return { submission, payloadText };
}

interface DraftParts {
  readonly payloadText: string;
  readonly hash: string | undefined;
  readonly estimate: TokenEstimate | undefined;
  readonly newId: () => string;
  readonly maxTries: number;
}

const isInference = ({ type }: SubmitRequest): boolean => type === undefined || type === 'inference';

function draft(request: SubmitRequest, caller: Caller, parts: DraftParts): Prepared {
  const { payloadText, hash, estimate, newId, maxTries } = parts;
  checkKey(request.key);
  // `mustBeRunnable` is set for the callers of the API.
  if (caller.mustBeRunnable && RUN_JOB_TYPES.includes(request.type ?? ''))
    throw new OrchdError(
      'INVALID_PARAMS',
      `jobs of type "${request.type}" are made by the runs of agents alone`,
      { field: 'type' },
    );
  const { type, parent_id: parent, tags } = request;
  const isRunBelow = type === RUN_TYPE && parent !== undefined;
  if (caller.mustBeRunnable && isRunBelow && tags?.[APPROVED_TAG] !== undefined)
    throw new OrchdError(
      'INVALID_PARAMS',
      `the tag "${APPROVED_TAG}" says that a person has allowed the run: leave it out`,
      { field: 'tags' },
    );
  if (caller.mustBeRunnable && isBelowOwnId.test(request.job_id ?? ''))
    throw new OrchdError(
      'INVALID_PARAMS',
      'a "job_id" that begins like this is kept for the jobs below another one: choose another',
      { field: 'job_id' },
    );
  const submission: DraftSubmission = {
    id: request.job_id ?? newId(),
    tenant: checkTenant(caller.tenant ?? DEFAULT_TENANT),
    submittedBy: caller.submittedBy ?? caller.principal ?? 'anonymous',
    spec: specOf(forAgent(withInstant(request), request.payload), {
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
    contextTokens: estimate?.contextTokens,
    tokens: estimate?.tokens,
    maxOutput: estimate?.maxOutput,
    messages: estimate?.messages,
    images: estimate?.images,
    unboundedBy: estimate?.unboundedBy,
    hash,
    correlationId: caller.correlationId,
    trace: caller.trace,
    forceRetry: request.force_retry ?? false,
    allowedModels: caller.models,
    isProposal: caller.isModule,
    lease: request.lease,
    unrunnable: unrunnable(request, caller),
    bodyStored: false,
    known: undefined,
  };
  return { submission, payloadText };
}

/** The ids of jobs below one whose id orchd has made (kit/ids.ts): the history is not asked for them. */
const isBelowOwnId = /^[0-9a-f]{32}\./;

/** A run is for the agent that it runs, whoever started it: its limits and its share are those of that agent. */
function forAgent(given: GivenSpec, payload: unknown): GivenSpec {
  if (given.type !== RUN_TYPE) return given;
  const { agent } = (payload ?? {}) as { agent?: unknown };
  return typeof agent === 'string' && isName.test(agent) ? { ...given, agent } : given;
}

const isName = new RegExp(NAME);

/** `not_before` in milliseconds. */
function withInstant(request: SubmitRequest): GivenSpec {
  const { not_before: given } = request;
  if (typeof given !== 'string') return request as GivenSpec;
  const at = parseInstant(given);
  if (at !== undefined && at >= 0) return { ...request, not_before: at };
  throw new OrchdError(
    'INVALID_PARAMS',
    `"${given}" is not a time: write it like 2026-12-01T08:00+01:00, with its offset`,
    { field: 'not_before' },
  );
}

function unrunnable(
  { wait_for_backend: waits }: SubmitRequest,
  { mustBeRunnable = false }: Caller,
): Submission['unrunnable'] {
  if (waits !== undefined) return waits ? 'wait' : 'refuse';
  return mustBeRunnable ? 'refuse' : undefined;
}

function checkShape(value: unknown): void {
  const excess = excessOf(value);
  if (excess === 'too deep') {
    throw new OrchdError('INVALID_PARAMS', `the request is nested deeper than ${MAX_DEPTH} levels`);
  }
  if (excess === 'too many keys') {
    throw new OrchdError('TOO_LARGE', `an object of the request has more than ${MAX_KEYS} keys`);
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

function payloadOf(request: SubmitRequest, caller: Caller): unknown {
  if (request.payload === undefined) {
    const payload = inferenceOf(request);
    if (isInference(request)) checkContent(request, payload, caller);
    return payload;
  }
  for (const field of PAYLOAD_FIELDS) {
    if (request[field] === undefined) continue;
    throw new OrchdError('INVALID_PARAMS', `"payload" and "${field}" cannot be given together`, { field });
  }
  return request.payload;
}

/** A job for a model has one of these, or a payload. */
const CONTENT_FIELDS = ['prompt', 'messages'] as const;

function checkContent(request: SubmitRequest, payload: object, { mustBeRunnable }: Caller): void {
  const given = CONTENT_FIELDS.filter((field) => field in payload);
  if (given.length > 1)
    throw new OrchdError('INVALID_PARAMS', '"prompt" and "messages" cannot be given together', {
      field: 'messages',
    });
  // A function of a program that embeds orchd may need no input.
  if (given.length === 0 && (mustBeRunnable || request.model !== undefined)) throw nothingToDo();
}

const nothingToDo = (): OrchdError =>
  new OrchdError('INVALID_PARAMS', 'a job for a model needs a prompt, messages or a payload', {
    field: 'prompt',
  });

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

/** The text of a result; written in slices if it was parsed from a large text. */
export async function parsedText(
  result: unknown,
  bodySize: BodySize | undefined,
  timers: Timers,
): Promise<string> {
  if (bodySize !== 'large') return jsonText(result, 'result');
  return inSlices(textInSlices(result ?? null), timers);
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

/**
 * A job below another one is hashed as it is written: its payload may be a long conversation, and sorting the keys of all
 * its messages would take longer than the rest of a step.
 */
function hashOf(request: SubmitRequest, { isWait = false }: Caller, payloadText: string): string {
  if (!isWait) return stableHash(hashedPart(request));
  return hash('sha256', JSON.stringify({ ...hashedPart(request), payload: undefined }) + payloadText);
}

/** The part of a request that two submits of the same job have in common. */
function hashedPart(request: SubmitRequest): object {
  const { force_retry: _, wait_for_backend: __, lease: ___, ...body } = request;
  return body;
}
