/** `POST /v2/models/verify`: reads a file of many gigabytes and says how far it is. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Env } from '../../kit/env/env.ts';
import { OrchdError, toOrchdError } from '../../model/errors.ts';
import { parseModelRef } from '../../model/model-ref.ts';
import { VerifyModel } from '../../model/pool-wire.ts';
import { openEventStream } from '../../wire/event-stream.ts';
import { type Route, route } from '../../wire/route.ts';
import { formatEvent } from '../../wire/sse.ts';
import type { ModelFiles } from './model-files.ts';
import { checkAsked, hashFile, verdictOf } from './verify.ts';

/** At once: each of them keeps the disk and a processor busy. */
const MAX_RUNNING = 2;
const HEARTBEAT_MS = 15_000;
const PROGRESS_MS = 500;
const COME_AGAIN_MS = 1000;

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
      404: 'The model is not here',
      429: 'As many are being verified as may be',
    },
    async handle({ body: asked }) {
      checkAsked(asked);
      const { file } = await models.locate(parseModelRef(asked.model_ref));
      if (running >= MAX_RUNNING) {
        throw new OrchdError('TOO_MANY_STREAMS', 'as many models are being verified as may be', {
          retryAfterMs: COME_AGAIN_MS,
        });
      }
      running++;
      return {
        stream: (request, response) => {
          void stream(env, file, asked, request, response).finally(() => running--);
        },
      };
    },
  });
}

async function stream(
  env: Env,
  file: string,
  asked: VerifyModel,
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
  const say = (event: string, data: object): void => {
    out.write(formatEvent({ event, data: JSON.stringify(data) }));
  };
  let saidAt = Number.NEGATIVE_INFINITY;
  const onProgress = (bytes: number, total: number): void => {
    const now = env.clock.monotonic();
    // One who does not read is told less.
    if (bytes < total && (now - saidAt < PROGRESS_MS || out.writableNeedDrain)) return;
    saidAt = now;
    say('progress', { bytes, total });
  };
  try {
    const { sha256, bytes } = await hashFile(env.disk, file, onProgress, () => isWanted);
    say('end', verdictOf(sha256, bytes, asked));
  } catch (thrown) {
    const { code, message, retriable } = toOrchdError(thrown);
    if (isWanted) say('error', { code, message, retriable });
  }
  out.end();
}
