/** Waits until an OpenAI-compatible server answers, and finds out what its model can hold. */
import type { Env } from '../../kit/env/env.ts';
import { pause } from '../../kit/pause.ts';
import { OrchdError, toOrchdError } from '../../model/errors.ts';
import type { Target } from '../../wire/outbound.ts';

export interface HealthParts {
  readonly env: Env;
  readonly target: Target;
  readonly headers: Readonly<Record<string, string>>;
  /** Settles when there is nothing to wait for any more. */
  readonly gone: Promise<OrchdError> | undefined;
  readonly signal: AbortSignal;
}

const HEALTH_POLL_MS = 250;
const TRY_MS = 10_000;
/** The largest models take long to load. */
const LOAD_MS = 30 * 60_000;
/** For the list of models. */
const MAX_BYTES = 4 * 2 ** 20;

export async function awaitHealth(parts: HealthParts): Promise<void> {
  const { env, gone, signal } = parts;
  const begun = env.clock.monotonic();
  let ended: OrchdError | undefined;
  void gone?.then((error) => {
    ended = error;
  });
  for (;;) {
    const failure = await look(parts);
    if (!failure) return;
    if (ended) throw new OrchdError('WORKER_START_FAILED', 'the upstream server ended before it answered');
    if (signal.aborted) throw new OrchdError('CANCELLED');
    if (env.clock.monotonic() - begun > LOAD_MS) throw new OrchdError('WORKER_START_TIMEOUT', failure);
    await pause(env.timers, HEALTH_POLL_MS);
  }
}

/** Servers without `/health` have `/v1/models`. Returns what is wrong. */
async function look({ target, headers, signal }: HealthParts): Promise<string | undefined> {
  try {
    for (const path of ['/health', '/v1/models']) {
      const { status } = await target.request({
        path,
        headers,
        timeoutMs: TRY_MS,
        maxBytes: MAX_BYTES,
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

/** As far as the server says it; servers do so in different words. */
export async function contextOf(
  target: Target,
  headers: Readonly<Record<string, string>>,
  model: string,
): Promise<number | undefined> {
  try {
    const { status, body } = await target.request({
      path: '/v1/models',
      headers,
      timeoutMs: TRY_MS,
      maxBytes: MAX_BYTES,
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
