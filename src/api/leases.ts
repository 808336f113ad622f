/** The routes of leases. */
import { Type } from 'typebox';
import { checker } from '../kit/check.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';
import type { Call, Route } from '../wire/route.ts';

const DAY_SEC = 86_400;

const LeaseRequest = Type.Object(
  {
    agent: Type.Optional(Type.String({ minLength: 1, maxLength: 255 })),
    min_memory_mb: Type.Optional(Type.Integer({ minimum: 0, maximum: 100_000_000 })),
    /** Chosen by whoever asks, so that asking twice is asking once. */
    token: Type.Optional(Type.String({ pattern: '^[0-9a-f]{64}$' })),
    ttl_seconds: Type.Optional(Type.Number({ minimum: 1, maximum: 20 * DAY_SEC })),
  },
  { additionalProperties: false },
);

/** The moment at which it was sent is taken and not used: what counts is when it was heard. */
const Heartbeat = Type.Object(
  { timestamp: Type.Optional(Type.Union([Type.String({ maxLength: 64 }), Type.Number()])) },
  { additionalProperties: false },
);

const checkRequest = checker(LeaseRequest);
const checkHeartbeat = checker(Heartbeat);

const tokenOf = (call: Call): string => call.params['token'] ?? '';

export function leaseRoutes(
  { leases, reads }: Orchestrator,
  ttlMs: number,
  newToken: () => string,
): readonly Route[] {
  return [
    {
      method: 'GET',
      path: '/leases',
      role: 'operate',
      summary: 'The leases that are held',
      answers: { 200: 'The leases' },
      handle: async ({ identity }) => ({
        status: 200,
        body: { leases: await reads.leases(identity.tenant) },
      }),
    },
    {
      method: 'POST',
      path: '/leases',
      role: 'submit',
      summary: 'Get a right to a GPU for a time, or to the CPU where none has enough memory left',
      body: LeaseRequest,
      answers: { 200: 'Granted, and durable' },
      repeatable: ({ body }) =>
        typeof body === 'object' && body !== null && !('token' in body)
          ? { ...body, token: newToken() }
          : body,
      handle: async ({ body, identity }) => {
        const { agent = identity.name, min_memory_mb = 0, ttl_seconds, token } = checkRequest(body ?? {});
        const ask = {
          token: token ?? newToken(),
          agent,
          minMemoryMb: min_memory_mb,
          ttlMs: ttl_seconds === undefined ? ttlMs : Math.round(ttl_seconds * 1000),
        };
        return { status: 200, body: { granted: true, ...(await leases.grant(ask, identity.tenant)) } };
      },
    },
    {
      method: 'POST',
      path: '/leases/:token/heartbeat',
      role: 'submit',
      summary: 'Keep a lease for another term',
      body: Heartbeat,
      answers: { 200: 'Kept until expires_at', 409: 'It is not held any more' },
      repeatable: ({ body }) => body,
      handle: async (call) => {
        checkHeartbeat(call.body ?? {});
        return { status: 200, body: await leases.heartbeat(tokenOf(call), call.identity.tenant) };
      },
    },
    {
      method: 'POST',
      path: '/leases/:token/release',
      role: 'submit',
      summary: 'Give a lease back',
      answers: { 200: 'Given back', 409: 'It is not held any more' },
      handle: async (call) => {
        await leases.release(tokenOf(call), call.identity.tenant);
        return { status: 200, body: { released: true, token: tokenOf(call) } };
      },
    },
  ];
}
