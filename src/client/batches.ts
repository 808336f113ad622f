/** Reads the results of a batch, and waits for its end. */
import type { BatchView } from '../model/http/batches.ts';
import type { JobView } from '../model/http/jobs.ts';
import { Patience, type PatienceOptions, pause } from './patience.ts';
import type { Requests } from './requests.ts';
import { resumedLines } from './resumed-lines.ts';

/** A job of a batch; `n` is its admission number, with which reading can go on behind it. */
export type BatchResult = JobView & { readonly n: number };

export interface ResultsOptions extends PatienceOptions {
  /** States separated by commas; all jobs by default. */
  readonly state?: string | undefined;
  /** The `n` of the last result that the caller has. */
  readonly after?: number | undefined;
  /** Adds what was asked. */
  readonly include?: 'payload' | undefined;
}

export function readResults(
  requests: Requests,
  batchId: string,
  options: ResultsOptions,
): AsyncGenerator<BatchResult> {
  const pathOf = (last: BatchResult | undefined): string => {
    const query = queryOf({ ...options, after: last?.n ?? options.after });
    return `/v2/batches/${encodeURIComponent(batchId)}/results?${query}`;
  };
  return resumedLines(requests, pathOf, options);
}

function queryOf({ state, after, include }: ResultsOptions): URLSearchParams {
  const given = { state, after: after?.toString(), include };
  return new URLSearchParams(
    Object.entries(given).filter((pair): pair is [string, string] => pair[1] !== undefined),
  );
}

export interface WaitOptions extends PatienceOptions {
  readonly pollMs?: number;
  /** Called with every look at the batch. */
  readonly onProgress?: (batch: BatchView) => void;
}

const DEFAULT_POLL_MS = 1000;

/** Returns the last look at the batch, also where the signal has ended the wait. */
export async function waitForBatch(look: () => Promise<BatchView>, options: WaitOptions): Promise<BatchView> {
  const patience = new Patience(options);
  let last: BatchView | undefined;
  for (;;) {
    try {
      last = await look();
      patience.succeeded();
      options.onProgress?.(last);
      if (last.live_jobs === 0) return last;
      await pause(options.pollMs ?? DEFAULT_POLL_MS, options.signal);
    } catch (error) {
      await patience.failed(error);
    }
    if (options.signal?.aborted) {
      if (last) return last;
      options.signal.throwIfAborted();
    }
  }
}
