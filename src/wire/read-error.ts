/** Parses the error out of an unsuccessful answer; runs in browsers too. */
import type { ErrorBody } from '../model/http/errors.ts';

/**
 * A parsed error. Only the code is certain to be present: the answer may come from another version, or from a proxy.
 */
export type ReadError = Partial<ErrorBody['error']> & { readonly code: string };

/** The error in the text of an answer; undefined if the text is not an orchd error. */
export function readError(text: string): ReadError | undefined {
  try {
    const { error } = JSON.parse(text) as { error?: Partial<ReadError> };
    return typeof error?.code === 'string' ? (error as ReadError) : undefined;
  } catch {
    return undefined;
  }
}
