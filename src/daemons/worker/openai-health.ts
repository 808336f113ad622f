/** Waits until an OpenAI-compatible server answers, and reads the context length of its model. */
import type { Env } from '../../kit/env/env.ts';
import { pause } from '../../kit/pause.ts';
import { OrchdError, toOrchdError } from '../../model/errors.ts';
import type { Target } from '../../wire/outbound.ts';

export interface HealthWaitOptions {
  readonly env: Env;
  readonly target: Target;
  readonly headers: Readonly<Record<string, string>>;
  /** Settles when the server has ended; undefined for a server that the worker did not start. */
  readonly ended: Promise<OrchdError> | undefined;
  readonly signal: AbortSignal;
}

const HEALTH_POLL_MS = 250;
const REQUEST_TIMEOUT_MS = 10_000;
/** Long, because the largest models take minutes to load. */
const LOAD_TIMEOUT_MS = 30 * 60_000;
/** Enough for the list of models. */
const MAX_RESPONSE_BYTES = 4 * 2 ** 20;

export async function awaitHealth(options: HealthWaitOptions): Promise<void> {
  const { env, ended, signal } = options;
  const startedAt = env.clock.monotonic();
  let hasEnded = false;
  void ended?.then(() => {
    hasEnded = true;
  });
  for (;;) {
    const failure = await checkHealth(options);
    if (!failure) return;
    if (hasEnded) throw new OrchdError('WORKER_START_FAILED', 'the upstream server ended before it answered');
    if (signal.aborted) throw new OrchdError('CANCELLED');
    if (env.clock.monotonic() - startedAt > LOAD_TIMEOUT_MS)
      throw new OrchdError('WORKER_START_TIMEOUT', failure);
    await pause(env.timers, HEALTH_POLL_MS);
  }
}

/** Tries `/health`, and `/v1/models` for servers without it. Returns what is wrong; undefined where nothing is. */
async function checkHealth({ target, headers, signal }: HealthWaitOptions): Promise<string | undefined> {
  try {
    for (const path of ['/health', '/v1/models']) {
      const { status } = await target.request({
        path,
        headers,
        timeoutMs: REQUEST_TIMEOUT_MS,
        maxBytes: MAX_RESPONSE_BYTES,
        signal,
      });
      if (status === 200) return undefined;
      if (status !== 404) return `the upstream answers ${status}`;
    }
    return 'the upstream has neither /health nor /v1/models';
  } catch (error) {
    return toOrchdError(error).message;
  }
}

/** The context length of the model, if the server reports it; servers use different fields for it. */
export async function contextOf(
  target: Target,
  headers: Readonly<Record<string, string>>,
  model: string,
): Promise<number | undefined> {
  try {
    const { status, body } = await target.request({
      path: '/v1/models',
      headers,
      timeoutMs: REQUEST_TIMEOUT_MS,
      maxBytes: MAX_RESPONSE_BYTES,
    });
    if (status !== 200) return undefined;
    const { data } = JSON.parse(body.toString()) as { data: Record<string, unknown>[] };
    const entry = data.find(({ id }) => id === model) ?? (data.length === 1 ? data[0] : undefined);
    const meta = entry?.['meta'] as { n_ctx?: unknown } | undefined;
    const length = entry?.['max_model_len'] ?? entry?.['context_length'] ?? meta?.n_ctx;
    return Number.isSafeInteger(length) && (length as number) > 0 ? (length as number) : undefined;
  } catch {
    return undefined;
  }
}
