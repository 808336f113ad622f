/** The error that an executor reports, as it is recorded. */
import { type ErrorInfo, errorInfo, isErrorCode } from './errors.ts';

export interface ReportedError {
  readonly code: string;
  readonly message: string;
  readonly retriable: boolean;
  readonly reason?: string | undefined;
}

const MAX_MESSAGE_CHARS = 2000;
const MAX_REASON_CHARS = 128;

/** A code that is not in our catalogue becomes EXECUTION_FAILED with that code as its reason. */
export function reportedError({ code, message, retriable, reason: given }: ReportedError): ErrorInfo {
  const isKnown = isErrorCode(code);
  const reason = (isKnown ? given : code)?.slice(0, MAX_REASON_CHARS);
  const base = errorInfo(isKnown ? code : 'EXECUTION_FAILED', message.slice(0, MAX_MESSAGE_CHARS));
  return { ...base, retriable, ...(reason !== undefined && { reason }) };
}
