/** Reads an answer of one JSON value a line; after a lost connection it goes on behind the last line. */
import { ClientError } from './client-error.ts';
import { Patience, type PatienceOptions } from './patience.ts';
import type { Requests } from './requests.ts';
import { textLines } from './text-lines.ts';

/** `pathOf` is the path of the lines behind `last`; undefined: of all lines. */
export async function* resumedLines<T>(
  requests: Requests,
  pathOf: (last: T | undefined) => string,
  options: PatienceOptions,
): AsyncGenerator<T> {
  const { signal } = options;
  const patience = new Patience(options);
  let last: T | undefined;
  for (;;) {
    try {
      const response = await requests.send(pathOf(last), { ...(signal && { signal }) });
      for await (const lines of textLines(bodyOf(response))) {
        patience.succeeded();
        for (const line of lines) {
          last = JSON.parse(line) as T;
          yield last;
        }
      }
      return;
    } catch (error) {
      await patience.failed(error instanceof ClientError ? error : requests.broken(error as Error));
      if (signal?.aborted) return;
    }
  }
}

const bodyOf = ({ body }: Response): AsyncIterable<Uint8Array> =>
  (body ?? []) as unknown as AsyncIterable<Uint8Array>;
