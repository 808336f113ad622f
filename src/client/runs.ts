/** Starts runs of agents and follows them over lost connections. */
import { ERRORS, OrchdError } from '../model/errors.ts';
import type { StartedRun, StartRun } from '../model/http/runs.ts';
import { LAST_EVENT_ID } from '../wire/headers.ts';
import type { ParsedError } from '../wire/read-error.ts';
import { readEvents } from '../wire/sse.ts';
import { ClientError } from './client-error.ts';
import { Patience, type PatienceOptions } from './patience.ts';
import type { Requests } from './requests.ts';

/** `input` or `messages`, and options of the run. */
export type RunRequest = StartRun;

/** An event of a run: queued, paused, resumed, step, token, reset, tool_result, approval, needs_decision, below, at last end or error. */
export interface RunEvent {
  readonly id: string | undefined;
  readonly event: string;
  readonly data: unknown;
}

/** Failures of a connection before a request was sent. */
const NEVER_SENT: readonly unknown[] = ['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN'];

/**
 * Sends the request for a run, and again after a connection was lost, while the brain restarts too. The request has the id
 * of the run: the same id starts no second run.
 */
export async function startRun(
  send: () => Promise<StartedRun>,
  options: PatienceOptions,
): Promise<StartedRun> {
  const patience = new Patience(options);
  for (let isSent = false; ; ) {
    try {
      return await send();
    } catch (error) {
      isSent ||= wasSent(error);
      // A request that was refused, or never sent, is for the caller to repeat.
      if (!isSent || !isOutage(error)) throw error;
      await patience.failed(error);
      if (options.signal?.aborted) throw error;
    }
  }
}

function wasSent(error: unknown): boolean {
  if (!(error instanceof ClientError) || error.status !== 0) return false;
  const cause = (error.cause as Error | undefined)?.cause as { code?: unknown } | undefined;
  return !NEVER_SENT.includes(cause?.code);
}

const isOutage = (error: unknown): boolean =>
  error instanceof ClientError && error.retriable && (error.status === 0 || error.status >= 500);

/**
 * Yields the events of a run until its end. After a lost connection it goes on behind the last event that has an id; no
 * event with an id is lost, or comes twice.
 */
export async function* runEvents(
  requests: Requests,
  runId: string,
  options: PatienceOptions,
): AsyncGenerator<RunEvent> {
  const { signal } = options;
  const patience = new Patience(options);
  let after: string | undefined;
  for (;;) {
    try {
      const response = await requests.send(`/v2/runs/${encodeURIComponent(runId)}/events`, {
        ...(after !== undefined && { headers: { [LAST_EVENT_ID]: after } }),
        ...(signal && { signal }),
      });
      for await (const { id, event, data } of response.body ? readEvents(response.body) : []) {
        patience.succeeded();
        after = id ?? after;
        const value = parsed(data);
        if (event === 'error') throwIfStreamFailed(value);
        yield { id, event, data: value };
        if (event === 'end' || event === 'error') return;
      }
      throw new Error('the stream ended before the run');
    } catch (error) {
      const isOurs = error instanceof ClientError || error instanceof OrchdError;
      await patience.failed(isOurs ? error : requests.broken(error as Error));
      if (signal?.aborted) return;
    }
  }
}

/** An event that is not JSON does not come from a brain; a retry would receive the same. */
function parsed(data: string): unknown {
  try {
    return JSON.parse(data);
  } catch {
    throw new OrchdError('WORKER_PROTOCOL', 'an event of the stream is not JSON');
  }
}

/** The event `error` of a run's end has the state of its job; without one the stream failed, not the run. */
function throwIfStreamFailed(data: unknown): void {
  const error = data as ParsedError & { readonly state?: unknown };
  if (error.state === undefined) throw new ClientError(ERRORS.UNAUTHORIZED.status, error);
}
