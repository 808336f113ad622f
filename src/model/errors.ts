/** The catalogue of all errors that a caller can see. Codes are never renamed or reused; docs/errors.md is generated. */
import { type CatalogueEntry, entry } from './error-entry.ts';
import { MCP_ERRORS } from './mcp-errors.ts';
import type { Reason, TurnedAwayReason } from './reasons.ts';

export const ERRORS = {
  ADMISSION_REJECT: entry(
    422,
    false,
    'The job was refused at admission; `reason` says why.',
    'Change what `reason` names; or set force_retry if it is recent_failure, wait_for_backend if it is no_backend.',
  ),
  QUEUE_FULL: entry(
    429,
    true,
    'The queue has reached its capacity in jobs or bytes.',
    'Wait for retry_after_ms and submit again, or raise queue_capacity.',
  ),
  INVALID_PARAMS: entry(
    400,
    false,
    'The request does not have the required form.',
    'Correct the field the message names.',
  ),
  POOL_UNAVAILABLE: entry(
    503,
    true,
    'No backend can take the job now.',
    'Try again later, or start a backend that can run this type and model.',
  ),
  WORKER_UNAVAILABLE: entry(
    503,
    false,
    'The backend chosen for the job is gone.',
    'Check the backend; redrive the job when it is back.',
  ),
  WORKER_TIMEOUT: entry(
    504,
    true,
    'The backend did not answer within the time allowed.',
    'Try again, or raise timeout_ms.',
  ),
  INSUFFICIENT_VRAM: entry(
    409,
    true,
    'The device does not have enough free memory for the model.',
    'Stop a worker, or choose a larger device.',
  ),
  GPU_UNAVAILABLE: entry(503, true, 'The device is in an error state.', 'Repair or reset the device.'),
  MODEL_NOT_FOUND: entry(
    404,
    false,
    'No such model.',
    'Use a name that `orchd models` or `GET /v1/models` lists; or register the model, or add it to an upstream.',
  ),
  WORKER_START_FAILED: entry(
    500,
    false,
    'A worker process could not be started.',
    'Read the reason in the worker state and correct it.',
  ),
  WORKER_START_TIMEOUT: entry(
    504,
    true,
    'A worker did not report ready in time.',
    'Try again, or raise the start timeout.',
  ),
  ...MCP_ERRORS,
  WORKER_NOT_FOUND: entry(404, false, 'No such worker.', 'List the workers and use one of their ids.'),
  INTERNAL: entry(
    500,
    false,
    'Something went wrong inside orchd.',
    'Report it with the correlation id; the log has the details.',
  ),
  UNAUTHORIZED: entry(
    401,
    false,
    'There is no token, or it is not valid.',
    'Send `Authorization: Bearer TOKEN`; `orchd token create` makes one.',
  ),
  FORBIDDEN: entry(
    403,
    false,
    'The caller may not do this.',
    'Use a token with the role and tenant that the message names, or an allowed Host and Origin.',
  ),
  METHOD_NOT_ALLOWED: entry(
    405,
    false,
    'The path does not support this method.',
    'Use a method of the Allow header.',
  ),
  REQUEST_TIMEOUT: entry(408, true, 'The request did not arrive in time.', 'Send it again, faster.'),
  TOO_LARGE: entry(413, false, 'The request is larger than allowed.', 'Send less, or raise the limit.'),
  UNSUPPORTED_MEDIA_TYPE: entry(
    415,
    false,
    'The body has an unsupported media type.',
    'Send JSON with `Content-Type: application/json`.',
  ),
  TOO_MANY_STREAMS: entry(
    429,
    true,
    'The caller has as many open streams as it may have.',
    'Close one, or poll the job instead of following it.',
  ),
  NOT_FOUND: entry(
    404,
    false,
    'There is nothing with this name or id.',
    'Check the name or id; /openapi.json has every path.',
  ),
  JOB_CONFLICT: entry(
    409,
    false,
    'This job id belongs to a job with another body.',
    'Use another job_id, or submit the same body again.',
  ),
  KEY_CONFLICT: entry(
    409,
    false,
    'Another live job has this key.',
    'Wait for that job to end or cancel it, then redrive.',
  ),
  SESSION_CONFLICT: entry(
    409,
    false,
    'There is a session with this id already.',
    'Use another session_id, or go on with that session.',
  ),
  ILLEGAL_STATE: entry(
    409,
    false,
    'The job is not in a state that allows this.',
    'Read its state and choose an action that is allowed in it.',
  ),
  CANCELLED: entry(499, false, 'The job was cancelled.', 'Submit it again if it is still wanted.'),
  DEADLINE_EXCEEDED: entry(
    504,
    false,
    'The job did not end before its deadline.',
    'Submit it with a later deadline, or at a higher priority.',
  ),
  DEPENDENCY_FAILED: entry(
    424,
    false,
    'A job that this job waits for has not ended as `after_policy` demands.',
    'See what became of the other job; redrive that one first, then this one.',
  ),
  EXECUTION_FAILED: entry(
    500,
    false,
    'The work itself failed on the backend.',
    'Correct the job; unchanged it would fail again.',
  ),
  WORKER_PROTOCOL: entry(
    502,
    false,
    'The backend sent something that violates the protocol.',
    'Check the backend: its version may differ.',
  ),
  UNKNOWN_OUTCOME: entry(
    409,
    false,
    'It is not known whether the backend ran the attempt.',
    'Decide with resolve: retry, failed or succeeded.',
  ),
  TOKEN_CONFLICT: entry(
    409,
    false,
    'This token belongs to an execution of another body.',
    'The store of the brain is an older copy: start it once with --this-is-a-copy.',
  ),
  FENCED: entry(409, false, 'A newer leader has taken over.', 'Send the request to the current leader.'),
  RATE_LIMITED: entry(
    429,
    true,
    'A limit of requests or tokens per second is reached; `policy_label` names it.',
    'Wait for retry_after_ms, or raise the limit.',
  ),
  CONTEXT_TOO_LONG: entry(
    422,
    false,
    'The prompt and the answer do not fit into the context of the model.',
    'Shorten the prompt, lower max_tokens, or use a model with a longer context.',
  ),
  UNSUPPORTED: entry(
    422,
    false,
    'The engine of this model does not support the request.',
    'Leave out what the message names, or use another model.',
  ),
  MODEL_UNVERIFIED: entry(
    422,
    false,
    'The file of the model is not the one that was registered.',
    'Restore the file, or register the model with its current checksum.',
  ),
  WORKER_BUSY: entry(
    503,
    true,
    'All slots of the worker are in use, or it takes no new jobs.',
    'Wait for retry_after_ms, or use another worker.',
  ),
  TOMBSTONED: entry(
    410,
    false,
    'This token was cancelled before it arrived, and is refused for good.',
    'Nothing; the brain starts another attempt if one is needed.',
  ),
  LEASE_NOT_HELD: entry(
    409,
    false,
    'This lease is not held: it has expired, was released, or was never granted.',
    'Stop using the device, and request a new lease.',
  ),
  NO_LEADER: entry(
    503,
    true,
    'No node of the cluster leads now, or it cannot be reached.',
    'Try again in a few seconds; `GET /leader` names the leader.',
  ),
  UNREACHABLE: entry(
    503,
    true,
    'No orchd answers at the address. Clients report this, never the server.',
    'Start it with `orchd up`, or correct the address.',
  ),
  SERVER_BUSY: entry(
    503,
    true,
    'The server is receiving large requests, or sending large answers, as many as it has memory for.',
    'Wait for retry_after_ms and send the request again, or raise max_body_bytes_in_flight or max_answer_bytes_in_flight.',
  ),
  SHUTTING_DOWN: entry(503, true, 'orchd is shutting down.', 'Try again in a few seconds.'),
  TOO_MANY_CONNECTIONS: entry(
    503,
    true,
    'All connections that the server takes, or takes from one address, are in use.',
    'Try again shortly; use connections for more than one request.',
  ),
  STORE_BUSY: entry(503, true, 'Too many writes wait for the disk.', 'Slow down and try again shortly.'),
  STORE_FULL: entry(
    507,
    true,
    'The disk is full: new jobs are refused until there is space.',
    'Free disk space; an orchd that is up continues its jobs and takes cancels meanwhile.',
  ),
  STORE_FAILED: entry(
    500,
    false,
    'The store has failed and accepts no more writes.',
    'Check the disk or the database, then restart; nothing acknowledged is lost.',
  ),
  STORE_LOCKED: entry(
    409,
    false,
    'Another process holds the data folder.',
    'Stop that process, or use another folder.',
  ),
  FOLDER_COPIED: entry(
    409,
    false,
    'The folder is a copy of another one, or was moved to another disk.',
    'If it is a copy or a restored backup, start once with --this-is-a-copy: jobs that were running count as unknown.',
  ),
  FOLDER_LINKED: entry(
    409,
    false,
    'The folder shares files with another one: one of the two was made of hard links.',
    'Remove the other folder. To keep both, copy this one with `cp -a`, which gives the copy files of its own, and start the copy once with --this-is-a-copy.',
  ),
  STORE_CORRUPT: entry(
    500,
    false,
    'The data folder contains a damaged record.',
    'Run `orchd doctor DIR` to see what is intact and how to salvage it.',
  ),
  STORE_TOO_NEW: entry(
    409,
    false,
    'The data folder was written by a newer orchd.',
    'Start that version, or a later one.',
  ),
  STORE_UNFINISHED: entry(
    409,
    false,
    'The store is the target of a migration that was not finished.',
    'Run the same `orchd migrate` again; or empty the target, and start on the source.',
  ),
  STORE_UNWRITABLE: entry(
    500,
    false,
    'The data folder cannot be written.',
    'Check its owner and mode, and whether the disk is mounted read-only.',
  ),
  SPOOL_INVALID: entry(400, false, 'The folder is no spool.', 'Make one with `orchd spool init DIR`.'),
  UPSTREAM_UNAVAILABLE: entry(
    503,
    true,
    'An upstream does not answer, or cannot say now which models it has.',
    'Start it, or correct its address; orchd asks again by itself.',
  ),
  UPSTREAM_KEY_REFUSED: entry(
    502,
    false,
    'An upstream wants a key, or does not accept the one that it gets.',
    'Name the variable that holds the key (--upstream-key-env NAME, or key_env in the configuration); if one is named, put a valid key into it and start orchd again.',
  ),
  UPSTREAM_INVALID: entry(
    502,
    false,
    'What an upstream answers is no list of models; none of its models is offered.',
    'Give the address of an API that answers GET /v1/models, with or without /v1 at its end.',
  ),
  CONFIG_INVALID: entry(400, false, 'The configuration is not valid.', 'Correct what the message names.'),
} as const satisfies Record<string, CatalogueEntry>;

export type ErrorCode = keyof typeof ERRORS;

export const isErrorCode = (code: string): code is ErrorCode => Object.hasOwn(ERRORS, code);

/** Facts sent to the caller with an error; never a stack, an internal path or a secret. */
export interface ErrorDetails {
  readonly reason?: Reason;
  readonly retryAfterMs?: number;
  readonly policyLabel?: string;
  readonly field?: string;
  readonly position?: string;
  readonly jobId?: string;
  readonly jobIds?: readonly (string | null)[];
  readonly retriable?: boolean;
  /** The provider behind an executor has done nothing for the request. */
  readonly turnedAway?: TurnedAwayReason;
  /** The request was refused before any work was done for it: nobody charges for it. */
  readonly isUncharged?: boolean;
}

/** The part of an error that is persisted and sent. */
export interface ErrorInfo {
  readonly code: ErrorCode;
  readonly message: string;
  readonly retriable: boolean;
  /** A value of REASONS; or the executor's own code, if it reported one that is not in the catalogue. */
  readonly reason?: Reason | (string & {});
  /** What the executor said about a job of a session, sealed with the key of that session; `message` is then general. */
  readonly sealed?: string;
}

export class OrchdError extends Error {
  readonly code: ErrorCode;
  readonly details: ErrorDetails;

  constructor(code: ErrorCode, message?: string, details: ErrorDetails = {}, options?: ErrorOptions) {
    super(message ?? ERRORS[code].meaning, options);
    this.name = 'OrchdError';
    this.code = code;
    this.details = details;
  }

  get status(): number {
    return ERRORS[this.code].status;
  }

  get retriable(): boolean {
    return this.details.retriable ?? ERRORS[this.code].retriable;
  }

  get next(): string {
    return ERRORS[this.code].next;
  }

  info(): ErrorInfo {
    const { code, message, retriable, details } = this;
    return { code, message, retriable, ...(details.reason !== undefined && { reason: details.reason }) };
  }
}

/** Converts anything thrown to an OrchdError; a foreign error becomes INTERNAL, with the original as its cause. */
export function toOrchdError(thrown: unknown): OrchdError {
  return thrown instanceof OrchdError ? thrown : new OrchdError('INTERNAL', undefined, {}, { cause: thrown });
}

export function errorInfo(code: ErrorCode, message?: string, reason?: Reason): ErrorInfo {
  const base = { code, message: message ?? ERRORS[code].meaning, retriable: ERRORS[code].retriable };
  return reason === undefined ? base : { ...base, reason };
}
