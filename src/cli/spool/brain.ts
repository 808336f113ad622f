/** The brain that an agent of a spool hands its jobs to, over HTTP. */
import type { OrchdClient } from '../../client/client.ts';
import { ClientError } from '../../client/client-error.ts';
import type { Brain, BrainAnswer, BrainJobEnd, BrainRefusal } from '../../daemons/spool/brain.ts';
import type { JobView } from '../../model/http/jobs.ts';
import { isTerminal } from '../../model/states.ts';
import type { SubmitRequest } from '../../model/submit.ts';

export const brainOf = (client: OrchdClient): Brain => ({
  submit: (request) =>
    answered(async () => {
      // The brain checks it, and its answer names what is wrong.
      await client.submit(request as SubmitRequest);
    }),
  ended: (jobId, signal) => answered(() => endOf(client, jobId, signal)),
  cancel: (jobId) =>
    answered(async () => {
      await client.cancel(jobId);
    }),
});

/** The agent has pauses of its own: a stream that cannot be resumed at once is given up. */
const NO_PATIENCE_MS = 0;

async function endOf(client: OrchdClient, jobId: string, signal: AbortSignal): Promise<BrainJobEnd> {
  for await (const _ of client.events(jobId, { signal, patienceMs: NO_PATIENCE_MS }));
  if (signal.aborted) return { is: 'live' };
  // The job and not its last event counts: it may have been queued again since.
  return endOfJob(await client.get(jobId));
}

function endOfJob({ state, result, error }: JobView): BrainJobEnd {
  if (state === 'succeeded') return { is: 'succeeded', result };
  if (!isTerminal(state)) return { is: 'live' };
  const what = state === 'cancelled' ? 'it was cancelled at the brain' : 'it failed at the brain';
  return { is: 'failed', reason: error ? `${error.code}: ${error.message}` : what };
}

async function answered<T>(call: () => Promise<T>): Promise<BrainAnswer<T>> {
  try {
    return { is: 'done', value: await call() };
  } catch (error) {
    return { is: 'refused', refusal: refusalOf(error) };
  }
}

function refusalOf(error: unknown): BrainRefusal {
  if (error instanceof ClientError) {
    const { code, message, status, retriable, retryAfterMs } = error;
    return { code, message, status, isRetriable: retriable, retryAfterMs };
  }
  const message = error instanceof Error ? error.message : String(error);
  return { code: 'UNREACHABLE', message, status: 0, isRetriable: true };
}
