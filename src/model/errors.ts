/**
 * The one error catalogue. Every error a caller can see is an entry here: a stable code, the HTTP status it
 * is rendered with, whether trying again may help, what it means and what to do next.
 * Codes are never renamed or reused; docs/errors.md is generated from this table.
 */
interface CatalogueEntry {
  readonly status: number;
  readonly retriable: boolean;
  readonly meaning: string;
  readonly next: string;
}

const entry = (status: number, retriable: boolean, meaning: string, next: string): CatalogueEntry => ({
  status,
  retriable,
  meaning,
  next,
});

export const ERRORS = {
  ADMISSION_REJECT: entry(
    422,
    false,
    'The job was refused at admission; `reason` says why.',
    'Change what `reason` names, or set force_retry where the reason is recent_failure.',
  ),
  QUEUE_FULL: entry(
    429,
    true,
    'The queue holds as many jobs or bytes as it may.',
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
    'Look at the backend; redrive the job when it is back.',
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
    'The device has not enough free memory for the model.',
    'Free a worker, or choose a larger device.',
  ),
  GPU_UNAVAILABLE: entry(503, true, 'The device is in an error state.', 'Repair or reset the device.'),
  MODEL_NOT_FOUND: entry(404, false, 'No such model.', 'Register the model, or correct its name.'),
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
    'Use a token with the role that the message names, or an allowed Host and Origin.',
  ),
  METHOD_NOT_ALLOWED: entry(
    405,
    false,
    'The path does not know this method.',
    'Use a method of the Allow header.',
  ),
  REQUEST_TIMEOUT: entry(408, true, 'The request did not arrive in time.', 'Send it again, faster.'),
  TOO_LARGE: entry(413, false, 'The request is larger than allowed.', 'Send less, or raise the limit.'),
  UNSUPPORTED_MEDIA_TYPE: entry(
    415,
    false,
    'The body is not of a type that is read here.',
    'Send JSON with `Content-Type: application/json`.',
  ),
  TOO_MANY_STREAMS: entry(
    429,
    true,
    'This caller follows as many streams as it may.',
    'Close one, or ask for the job instead of following it.',
  ),
  NOT_FOUND: entry(
    404,
    false,
    'There is nothing by that name here.',
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
  ILLEGAL_STATE: entry(
    409,
    false,
    'The job is not in a state that allows this.',
    'Read its state and choose an action that fits.',
  ),
  CANCELLED: entry(499, false, 'The job was cancelled.', 'Submit it again if it is still wanted.'),
  DEADLINE_EXCEEDED: entry(
    504,
    false,
    'The job did not end before its deadline.',
    'Submit it with a later deadline, or at a higher priority.',
  ),
  EXECUTION_FAILED: entry(
    500,
    false,
    'The work itself failed on the backend.',
    'Correct the job; it would fail again as it is.',
  ),
  WORKER_PROTOCOL: entry(
    502,
    false,
    'The backend sent something that is not part of the contract.',
    'Look at the backend: it may be of another version.',
  ),
  UNKNOWN_OUTCOME: entry(
    409,
    false,
    'It is not known whether the backend ran the attempt.',
    'Settle it with resolve: retry, failed or succeeded.',
  ),
  FENCED: entry(409, false, 'A newer leader has taken over.', 'Send the request to the present leader.'),
  RATE_LIMITED: entry(
    429,
    true,
    'A limit of requests or tokens per second is reached; `policy_label` names it.',
    'Wait for retry_after_ms, or have the limit raised.',
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
    'The engine behind this model cannot do what was asked.',
    'Leave out what the message names, or use another model.',
  ),
  MODEL_UNVERIFIED: entry(
    422,
    false,
    'The file of the model is not the one that was registered.',
    'Restore the file, or register the model with its present checksum.',
  ),
  WORKER_BUSY: entry(
    503,
    true,
    'All slots of the worker are in use, or it takes nothing new.',
    'Wait for retry_after_ms, or use another worker.',
  ),
  TOMBSTONED: entry(
    410,
    false,
    'This token was cancelled before it arrived, and is refused for good.',
    'Nothing; the brain starts another attempt where one is wanted.',
  ),
  LEASE_NOT_HELD: entry(
    409,
    false,
    'This lease is not held: it has expired, was released, or was never granted.',
    'Stop using what it was for, and ask for a new one.',
  ),
  NO_LEADER: entry(
    503,
    true,
    'No node of the cluster leads now, or it cannot be reached.',
    'Try again in a few seconds; `GET /leader` says who leads.',
  ),
  UNREACHABLE: entry(
    503,
    true,
    'No orchd answers at the address; what asks says this, not the server.',
    'Start it with `orchd up`, or correct the address.',
  ),
  SHUTTING_DOWN: entry(503, true, 'orchd is shutting down.', 'Try again in a few seconds.'),
  STORE_BUSY: entry(
    503,
    true,
    'More writes are waiting for the disk than may wait.',
    'Slow down and try again shortly.',
  ),
  STORE_FULL: entry(
    507,
    true,
    'The disk is full: no new work is taken until there is space.',
    'Free disk space; running work and cancels go on meanwhile.',
  ),
  STORE_FAILED: entry(
    500,
    false,
    'The store failed and takes no more writes.',
    'Look at the disk or the database, then restart; nothing acknowledged is lost.',
  ),
  STORE_LOCKED: entry(
    409,
    false,
    'Another process holds the data folder.',
    'Stop that process, or use another folder.',
  ),
  STORE_CORRUPT: entry(
    500,
    false,
    'The data folder holds a record that is damaged.',
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
    'The store is the target of a move that was not finished.',
    'Run the same `orchd migrate` again; or empty the target, and start on the source.',
  ),
  STORE_UNWRITABLE: entry(
    500,
    false,
    'The data folder cannot be written.',
    'Check its owner and mode, and whether the disk is mounted read-only.',
  ),
  CONFIG_INVALID: entry(400, false, 'The configuration is not valid.', 'Correct what the message names.'),
} as const satisfies Record<string, CatalogueEntry>;

export type ErrorCode = keyof typeof ERRORS;

export const isErrorCode = (code: string): code is ErrorCode => Object.hasOwn(ERRORS, code);

/** Why exactly, where one code stands for several cases; told as `reason`. Never renamed or reused, like the codes. */
export const REASONS = {
  model_retired: 'The model is retired.',
  context_length: 'The job needs a longer context than the model has.',
  token_budget: 'The tokens of a limit or of the session are used up.',
  parent_ended: 'The job named by parent_id is over, or is being cancelled.',
  recent_failure: 'A job with the same key failed for good a short while ago.',
  too_many_leases: 'As many leases are held as there may be.',
  dropped: 'The job was dropped to make room for newer work.',
  begun_again: 'The answer began anew after part of it was sent.',
  fetching: 'The model is being fetched; come back later.',
  download: 'The model could not be fetched.',
  unreachable: 'The other side cannot be reached; it has not heard the request.',
  busy: 'Too many requests are under way to the other side; it has not heard this one.',
  connection_lost: 'The connection broke while the request was under way.',
  timeout: 'The other side did not answer in time.',
  idle: 'The other side began to answer and then said nothing for too long.',
  redirect: 'The other side answered with a redirect, which is not followed.',
  too_large: 'The answer is larger than allowed.',
  malformed: 'The answer is not what it should be.',
  aborted: 'The request was given up by its caller.',
} as const satisfies Record<string, string>;

export type Reason = keyof typeof REASONS;

/** Facts that go with an error to the caller; never a stack, a path of ours or a secret. */
export interface ErrorDetails {
  readonly reason?: Reason;
  readonly retryAfterMs?: number;
  readonly policyLabel?: string;
  readonly field?: string;
  readonly position?: string;
  readonly jobId?: string;
  readonly retriable?: boolean;
}

/** What is persisted and sent of an error. */
export interface ErrorInfo {
  readonly code: ErrorCode;
  readonly message: string;
  readonly retriable: boolean;
  /** Of an error that an executor reports with a code of its own: that code. */
  readonly reason?: Reason | (string & {});
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
    const { reason } = this.details;
    const base = { code: this.code, message: this.message, retriable: this.retriable };
    return reason === undefined ? base : { ...base, reason };
  }
}

/** Makes an OrchdError of anything thrown; what is not ours becomes INTERNAL and keeps its cause for the log. */
export function toOrchdError(thrown: unknown): OrchdError {
  if (thrown instanceof OrchdError) return thrown;
  return new OrchdError('INTERNAL', ERRORS.INTERNAL.meaning, {}, { cause: thrown });
}

export function errorInfo(code: ErrorCode, message?: string, reason?: Reason): ErrorInfo {
  const base = { code, message: message ?? ERRORS[code].meaning, retriable: ERRORS[code].retriable };
  return reason === undefined ? base : { ...base, reason };
}
