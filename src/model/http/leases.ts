/** Schemas of the HTTP requests and answers about leases: the right to a GPU for a limited time. */
import { Type } from 'typebox';
import { answerObject, Instant, instant, orNull, requestObject, type Shape } from './shape.ts';

const optional = Type.Optional;
const DAY_SEC = 86_400;

export const LeaseBody = requestObject({
  agent: optional(
    Type.String({ minLength: 1, maxLength: 255, description: 'Holder of the lease; by default the caller' }),
  ),
  min_memory_mb: optional(
    Type.Integer({ minimum: 0, maximum: 100_000_000, description: 'Device memory that the holder needs' }),
  ),
  pool: optional(
    Type.String({
      minLength: 1,
      maxLength: 64,
      description:
        'Only a GPU of this pool; by default one of the configuration or, where it names none, of any pool',
    }),
  ),
  gpu_index: optional(Type.Integer({ minimum: 0, maximum: 1023, description: 'Only this GPU' })),
  token: optional(
    Type.String({
      pattern: '^[0-9a-f]{64}$',
      description:
        'Token of the lease, chosen by the caller: a repeated request with it returns the same lease',
    }),
  ),
  ttl_seconds: optional(
    Type.Number({
      minimum: 1,
      maximum: 20 * DAY_SEC,
      description: 'The lease expires this long after its last heartbeat',
    }),
  ),
});

const fence = optional(
  Type.Integer({
    minimum: 0,
    description: 'Fence of the lease: refused if the token has been granted anew since',
  }),
);

export const LeaseRelease = requestObject({ fence });

export const LeaseHeartbeat = requestObject({
  fence,
  timestamp: optional(
    Type.Union([Type.String({ maxLength: 64 }), Type.Number()], {
      description: 'Ignored: the time at which the heartbeat arrives counts',
    }),
  ),
});

const lease = {
  token: Type.String({ description: 'Names the lease in its heartbeats and its release' }),
  tenant: Type.String({ description: 'The tenant of the holder' }),
  agent: Type.String({ description: 'Holder of the lease' }),
  mode: Type.Union([Type.Literal('gpu'), Type.Literal('cpu')], {
    description: '"cpu" if no GPU had enough memory left for the tenant: the holder may use no GPU',
  }),
  pool: orNull(Type.String({ description: 'The pool of the GPU; null for a GPU of the configuration' })),
  gpu_index: orNull(Type.Integer({ description: 'The GPU that the holder may use; null in mode "cpu"' })),
  attempt: orNull(
    Type.String({ description: 'The attempt for which a consumer holds it, and with which it ends' }),
  ),
  min_memory_mb: Type.Integer({ description: 'Device memory that is reserved for the holder' }),
  fence: Type.Integer({
    description:
      'Higher with every grant of the same device: a resource can refuse a holder with a lower fence than it has seen',
  }),
  granted_at: Instant,
  expires_at: orNull(
    instant('When the lease ends unless a heartbeat arrives before; null for that of an attempt'),
  ),
};

export const LeaseView = answerObject('Lease', lease);
export type LeaseView = Shape<typeof LeaseView>;

export const LeaseGranted = answerObject('LeaseGranted', { granted: Type.Literal(true), ...lease });

export const LeaseList = answerObject('LeaseList', { leases: Type.Array(LeaseView) });

export const LeaseReleased = answerObject('LeaseReleased', {
  released: Type.Literal(true),
  token: Type.String(),
});
