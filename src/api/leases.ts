/** The routes of leases. */
import {
  LeaseBody,
  LeaseGranted,
  LeaseHeartbeat,
  LeaseList,
  LeaseReleased,
  LeaseView,
} from '../model/http/leases.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';
import { type Call, type Route, route } from '../wire/route.ts';

const tokenOf = ({ params }: Pick<Call, 'params'>): string => params['token'] ?? '';

const NOT_HELD = 'It is not held any more';

export const leaseRoutes = (
  orchestrator: Orchestrator,
  ttlMs: number,
  newToken: () => string,
): readonly Route[] => [
  listRoute(orchestrator),
  grantRoute(orchestrator, ttlMs, newToken),
  ...holderRoutes(orchestrator),
];

const listRoute = ({ reads }: Orchestrator): Route =>
  route({
    operationId: 'listLeases',
    tag: 'leases',
    method: 'GET',
    path: '/leases',
    role: 'operate',
    summary: 'The leases that are held',
    answers: { 200: { description: 'The leases', body: LeaseList } },
    handle: async ({ identity }) => ({ status: 200, body: { leases: await reads.leases(identity.tenant) } }),
  });

const grantRoute = ({ leases }: Orchestrator, ttlMs: number, newToken: () => string): Route =>
  route({
    operationId: 'grantLease',
    tag: 'leases',
    method: 'POST',
    path: '/leases',
    role: 'submit',
    summary: 'Get a right to a GPU for a time, or to the CPU where none has enough memory left',
    body: LeaseBody,
    answers: { 200: { description: 'Granted, and durable', body: LeaseGranted } },
    repeatable: ({ body }) =>
      typeof body === 'object' && body !== null && !('token' in body) ? { ...body, token: newToken() } : body,
    handle: async ({ body, identity }) => {
      const { agent = identity.name, min_memory_mb = 0, ttl_seconds, token } = body;
      const ask = {
        token: token ?? newToken(),
        agent,
        minMemoryMb: min_memory_mb,
        ttlMs: ttl_seconds === undefined ? ttlMs : Math.round(ttl_seconds * 1000),
      };
      return { status: 200, body: { granted: true, ...(await leases.grant(ask, identity.tenant)) } };
    },
  });

const holderRoutes = ({ leases }: Orchestrator): readonly Route[] => [
  route({
    operationId: 'keepLease',
    tag: 'leases',
    method: 'POST',
    path: '/leases/:token/heartbeat',
    role: 'submit',
    summary: 'Keep a lease for another term',
    body: LeaseHeartbeat,
    answers: { 200: { description: 'Kept until expires_at', body: LeaseView }, 409: NOT_HELD },
    repeatable: ({ body }) => body,
    handle: async (call) => ({
      status: 200,
      body: await leases.heartbeat(tokenOf(call), call.identity.tenant),
    }),
  }),
  route({
    operationId: 'releaseLease',
    tag: 'leases',
    method: 'POST',
    path: '/leases/:token/release',
    role: 'submit',
    summary: 'Give a lease back',
    answers: { 200: { description: 'Given back', body: LeaseReleased }, 409: NOT_HELD },
    handle: async (call) => {
      await leases.release(tokenOf(call), call.identity.tenant);
      return { status: 200, body: { released: true, token: tokenOf(call) } };
    },
  }),
];
