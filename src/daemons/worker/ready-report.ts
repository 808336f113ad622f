/** Reports to the pool manager that this worker is ready, and retries until the manager has accepted the report. */
import { type BackoffPolicy, backoffMs } from '../../kit/backoff.ts';
import type { Env } from '../../kit/env/env.ts';
import type { Logger } from '../../kit/logger.ts';
import { pause } from '../../kit/pause.ts';
import type { Secret } from '../../kit/secret.ts';
import { OrchdError, toOrchdError } from '../../model/errors.ts';
import type { WorkerReady } from '../../model/pool-wire.ts';
import { Outbound } from '../../wire/outbound.ts';

export interface ReadyReport {
  readonly env: Env;
  readonly logger: Logger;
  readonly url: string;
  readonly token: Secret | undefined;
  readonly body: WorkerReady;
  readonly signal: AbortSignal;
}

const BACKOFF: BackoffPolicy = { baseDelayMs: 200, maxDelayMs: 5000, jitter: 0.5 };
const REQUEST_TIMEOUT_MS = 10_000;
/** When to give up: a worker that its manager does not know of occupies a device for nothing. */
const GIVE_UP_MS = 15 * 60_000;

/** Settles when the report was accepted; throws after GIVE_UP_MS. */
export async function reportReady(report: ReadyReport): Promise<void> {
  const { env, logger, signal } = report;
  const outbound = new Outbound({ timers: env.timers });
  const startedAt = env.clock.monotonic();
  try {
    for (let tries = 1; !signal.aborted; tries++) {
      const failure = await send(report, outbound);
      if (!failure || signal.aborted) return;
      if (env.clock.monotonic() - startedAt > GIVE_UP_MS) throw failure;
      logger.warn('the pool manager did not accept the ready report', {
        count: tries,
        error_code: failure.code,
        reason: failure.message,
      });
      await pause(env.timers, backoffMs(BACKOFF, tries, env.random.next()), signal);
    }
  } finally {
    outbound.close();
  }
}

async function send(
  { url, token, body, signal }: ReadyReport,
  outbound: Outbound,
): Promise<OrchdError | undefined> {
  // A new target each time, so that the host name of a manager that has moved is resolved again.
  const target = outbound.to(url);
  try {
    const { status } = await target.request({
      method: 'POST',
      path: '/v2/internal/workers/ready',
      headers: {
        'content-type': 'application/json',
        ...(token && { authorization: `Bearer ${token.reveal()}` }),
      },
      body: JSON.stringify(body),
      timeoutMs: REQUEST_TIMEOUT_MS,
      signal,
    });
    if (status >= 200 && status < 300) return undefined;
    return new OrchdError('WORKER_UNAVAILABLE', `the pool manager answered ${status}`);
  } catch (error) {
    return toOrchdError(error);
  } finally {
    target.close();
  }
}
