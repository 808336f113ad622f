/** `POST /v2/models/verify`: hashes a model file, which may take minutes, and streams its progress and the result. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Env } from '../../kit/env/env.ts';
import { OrchdError, toOrchdError } from '../../model/errors.ts';
import { parseModelRef } from '../../model/model-ref.ts';
import { VerifyModel } from '../../model/pool-wire.ts';
import { openEventStream } from '../../wire/event-stream.ts';
import { type Route, route } from '../../wire/route.ts';
import { formatEvent } from '../../wire/sse.ts';
import type { ModelFiles } from './model-files.ts';
import { checkSignatureFields, hashFile, verdictOf } from './verify.ts';

/** Maximum number of concurrent verifications: each keeps the disk and a processor busy. */
const MAX_RUNNING = 2;
const HEARTBEAT_MS = 15_000;
const PROGRESS_INTERVAL_MS = 500;
const RETRY_AFTER_MS = 1000;

export function verifyRoute(env: Env, models: ModelFiles): Route {
  let running = 0;
  return route({
    operationId: 'verifyModel',
    tag: 'pool manager',
    method: 'POST',
    path: '/v2/models/verify',
    role: 'operate',
    summary: 'Compare a file with its checksum and signature; answers with server-sent events',
    body: VerifyModel,
    streams: true,
    answers: {
      200: { description: 'The stream', events: '`progress {bytes, total}`, then `end` or `error`' },
      404: 'The pool does not have the model',
      429: 'Too many verifications are running',
    },
    async handle({ body: verification }) {
      checkSignatureFields(verification);
      const { file } = await models.locate(parseModelRef(verification.model_ref));
      if (running >= MAX_RUNNING) {
        throw new OrchdError('TOO_MANY_STREAMS', 'as many models are being verified as may be', {
          retryAfterMs: RETRY_AFTER_MS,
        });
      }
      running++;
      return {
        stream: (request, response) => {
          void stream(env, file, verification, request, response).finally(() => running--);
        },
      };
    },
  });
}

async function stream(
  env: Env,
  file: string,
  verification: VerifyModel,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  let isWanted = true;
  const out = openEventStream({
    request,
    response,
    timers: env.timers,
    heartbeatMs: HEARTBEAT_MS,
    onDrain: () => undefined,
    onClose: () => {
      isWanted = false;
    },
  });
  const send = (event: string, data: object): void => {
    out.write(formatEvent({ event, data: JSON.stringify(data) }));
  };
  let sentAt = Number.NEGATIVE_INFINITY;
  const onProgress = (bytes: number, total: number): void => {
    const now = env.clock.monotonic();
    // A reader that is slow gets fewer progress events.
    if (bytes < total && (now - sentAt < PROGRESS_INTERVAL_MS || out.writableNeedDrain)) return;
    sentAt = now;
    send('progress', { bytes, total });
  };
  try {
    const { sha256, bytes } = await hashFile(env.disk, file, onProgress, () => isWanted);
    send('end', verdictOf(sha256, bytes, verification));
  } catch (thrown) {
    const { code, message, retriable } = toOrchdError(thrown);
    if (isWanted) send('error', { code, message, retriable });
  }
  out.end();
}
