/** Reads the error out of an answer that is no success; runs in browsers too. */
import type { ErrorBody } from '../model/http/errors.ts';

/** What an answer says went wrong, as far as it is known: only the code is certain to be there. */
export type ReadError = Partial<ErrorBody['error']> & { readonly code: string };

/** The error in the text of an answer; undefined where the text is no error of ours. */
export function readError(text: string): ReadError | undefined {
  try {
    const { error } = JSON.parse(text) as { error?: Partial<ReadError> };
    return typeof error?.code === 'string' ? (error as ReadError) : undefined;
  } catch {
    return undefined;
  }
}
