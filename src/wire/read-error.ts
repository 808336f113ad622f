/** Parses the error out of an unsuccessful answer; runs in browsers too. */
import type { ErrorBody } from '../model/http/errors.ts';

/**
 * A parsed error. Only the code is certain to be present: the answer may come from another version, or from a proxy.
 */
export type ParsedError = Partial<ErrorBody['error']> & { readonly code: string };

/** The error in the text of an answer; undefined if the text is not JSON with an `error.code`. */
export function readError(text: string): ParsedError | undefined {
  try {
    const { error } = JSON.parse(text) as { error?: Partial<ParsedError> };
    return typeof error?.code === 'string' ? (error as ParsedError) : undefined;
  } catch {
    return undefined;
  }
}
