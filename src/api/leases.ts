/** The routes of leases: list, grant, keep and release the right to a GPU. */
import {
  LeaseBody,
  LeaseGranted,
  LeaseHeartbeat,
  LeaseList,
  LeaseRelease,
  LeaseReleased,
  LeaseView,
} from '../model/http/leases.ts';
import { DEFAULT_TENANT } from '../model/records.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';
import { type Call, type Route, route } from '../wire/route.ts';
import { grants } from '../wire/tokens.ts';

const tokenOf = ({ params }: Pick<Call, 'params'>): string => params['token'] ?? '';

/** The tenant whose leases the caller reaches; undefined, all of them, for the operator. */
const reach = ({ tenant, role }: Call['identity']): string | undefined =>
  tenant === DEFAULT_TENANT && grants(role, 'operate') ? undefined : tenant;

const NOT_HELD = 'The lease is no longer held';

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
    summary: 'The leases that are held; those of all tenants for the default tenant',
    answers: { 200: { description: 'The leases', body: LeaseList } },
    handle: async ({ identity }) => ({ status: 200, body: { leases: await reads.leases(reach(identity)) } }),
  });

const grantRoute = ({ leases }: Orchestrator, ttlMs: number, newToken: () => string): Route =>
  route({
    operationId: 'grantLease',
    tag: 'leases',
    method: 'POST',
    path: '/leases',
    role: 'submit',
    summary: 'Get the right to a GPU for a time, or to the CPU if no GPU has enough memory left',
    body: LeaseBody,
    answers: {
      200: { description: 'Granted, and durable', body: LeaseGranted },
      404: 'No such pool, or no such GPU in it',
      409: 'No GPU of the pool is large enough',
      503: 'A pool manager has not reported yet',
    },
    repeatable: ({ body }) =>
      typeof body === 'object' && body !== null && !('token' in body) ? { ...body, token: newToken() } : body,
    handle: async ({ body, identity }) => {
      const { agent = identity.name, min_memory_mb = 0, ttl_seconds, token, pool, gpu_index } = body;
      const request = {
        token: token ?? newToken(),
        agent,
        minMemoryMb: min_memory_mb,
        ...(pool !== undefined && { pool }),
        ...(gpu_index !== undefined && { gpuIndex: gpu_index }),
        ttlMs: ttl_seconds === undefined ? ttlMs : Math.round(ttl_seconds * 1000),
      };
      return { status: 200, body: { granted: true, ...(await leases.grant(request, identity.tenant)) } };
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
      body: await leases.heartbeat(tokenOf(call), call.identity.tenant, call.body.fence),
    }),
  }),
  route({
    operationId: 'releaseLease',
    tag: 'leases',
    method: 'POST',
    path: '/leases/:token/release',
    role: 'submit',
    summary: 'Give a lease back',
    body: LeaseRelease,
    answers: { 200: { description: 'Given back', body: LeaseReleased }, 409: NOT_HELD },
    handle: async (call) => {
      await leases.release(tokenOf(call), reach(call.identity), call.body.fence);
      return { status: 200, body: { released: true, token: tokenOf(call) } };
    },
  }),
];
