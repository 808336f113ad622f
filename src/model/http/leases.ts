/** Leases on the wire. */
import { Type } from 'typebox';
import { answerObject, Instant, orNull, requestObject, type Shape } from './shape.ts';

const optional = Type.Optional;
const DAY_SEC = 86_400;

export const LeaseBody = requestObject({
  agent: optional(Type.String({ minLength: 1, maxLength: 255 })),
  min_memory_mb: optional(Type.Integer({ minimum: 0, maximum: 100_000_000 })),
  token: optional(
    Type.String({
      pattern: '^[0-9a-f]{64}$',
      description: 'Chosen by the caller: asking twice is asking once',
    }),
  ),
  ttl_seconds: optional(Type.Number({ minimum: 1, maximum: 20 * DAY_SEC })),
});

export const LeaseHeartbeat = requestObject({
  timestamp: optional(
    Type.Union([Type.String({ maxLength: 64 }), Type.Number()], {
      description: 'Ignored: a heartbeat counts from when it arrives',
    }),
  ),
});

const lease = {
  token: Type.String(),
  agent: Type.String(),
  mode: Type.Union([Type.Literal('gpu'), Type.Literal('cpu')]),
  gpu_index: orNull(Type.Integer()),
  min_memory_mb: Type.Integer(),
  fence: Type.Integer({ description: 'Grows with every grant of the same device' }),
  granted_at: Instant,
  expires_at: Instant,
};

export const LeaseView = answerObject('Lease', lease);
export type LeaseView = Shape<typeof LeaseView>;

export const LeaseGranted = answerObject('LeaseGranted', { granted: Type.Literal(true), ...lease });

export const LeaseList = answerObject('LeaseList', { leases: Type.Array(LeaseView) });

export const LeaseReleased = answerObject('LeaseReleased', {
  released: Type.Literal(true),
  token: Type.String(),
});
