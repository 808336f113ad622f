/** Errors that a caller can see: a code of the catalogue (error-catalogue.ts), and facts about the case. */
import { ERRORS } from './error-catalogue.ts';
import type { Reason, TurnedAwayReason } from './reasons.ts';

export { ERRORS };

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
