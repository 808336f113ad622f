/** Reads the payload of a caller into a request for a driver. */
import { createHash } from 'node:crypto';
import { checker } from '../../kit/check.ts';
import { OrchdError } from '../../model/errors.ts';
import type { SeatOrder } from '../../model/gateway-wire.ts';
import type { HeardMessages } from '../../model/heard.ts';
import { ExecuteRequest } from '../../model/worker-wire.ts';
import type { CallRecord } from '../execution/execution.ts';

const checkBody = checker(ExecuteRequest);

export interface SubmittedWork {
  readonly payload: unknown;
  readonly jobId: string;
  readonly threadId?: string | null | undefined;
}

/** The payload with the fields that the gateway sets: these count, whatever the payload says. */
export function bodyOf({ payload, jobId, threadId }: SubmittedWork): ExecuteRequest {
  const fields = typeof payload === 'string' ? { prompt: payload } : (payload as object);
  return checkBody({
    ...fields,
    job_id: jobId,
    ...(typeof threadId === 'string' && { session_id: threadId }),
  });
}

/** The provider's name of the model that a request asks for; a seat with one model needs no name. */
export function modelOf({ models }: SeatOrder, asked: string | undefined): string {
  const names = Object.keys(models);
  const name = asked ?? (names.length === 1 ? names[0] : undefined);
  if (name === undefined) {
    throw new OrchdError('INVALID_PARAMS', 'the seat has several models: "payload.model" has to name one', {
      field: 'payload.model',
    });
  }
  const model = Object.hasOwn(models, name) ? models[name] : undefined;
  if (model === undefined) throw new OrchdError('MODEL_NOT_FOUND', 'this seat does not have the model');
  return model;
}

export interface CallSource {
  readonly seat: SeatOrder;
  readonly owner: string;
  readonly token: string;
  readonly model: string | undefined;
  readonly timeoutMs: number;
  readonly heard?: HeardMessages | undefined;
}

export function callRecord({ seat, owner, token, model, timeoutMs, heard }: CallSource): CallRecord {
  // Tokens may have any length and characters; providers take a short and plain name.
  const tag = createHash('sha256').update(`${owner}/${token}`).digest('base64url').slice(0, 32);
  return {
    seat: seat.name,
    model: modelOf(seat, model),
    tag: `orchd-${tag}`,
    timeoutMs,
    ...(heard && { heard }),
  };
}
