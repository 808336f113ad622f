/** The routes of the policy: what operators set at run time, preview and undo; and the eviction of a whole pool. */
import {
  EvictPool,
  PolicyView,
  PoolEvicted,
  SetPolicy,
  SetPolicyQuery,
  UndoPolicy,
} from '../model/http/policy.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';
import { type Route, route } from '../wire/route.ts';

const IN_FORCE = { description: 'It is in force, and durable', body: PolicyView };

export const policyRoutes = ({ policy, pools }: Orchestrator): readonly Route[] => [
  route({
    operationId: 'getPolicy',
    tag: 'control',
    method: 'GET',
    path: '/control/policy',
    role: 'read',
    scope: 'global',
    summary:
      'The gates, limits and numbers of workers in force, who set them last and why, and what was before',
    answers: { 200: { description: 'The policy', body: PolicyView } },
    handle: async () => ({ status: 200, body: await policy.view() }),
  }),
  route({
    operationId: 'setPolicy',
    tag: 'control',
    method: 'PUT',
    path: '/control/policy',
    role: 'admin',
    scope: 'global',
    summary:
      'Set gates, limits and numbers of workers in place of those of the configuration; what is left out is as configured, but for the limits, which stay',
    logsRefusals: true,
    query: SetPolicyQuery,
    body: SetPolicy,
    answers: { 200: IN_FORCE, 400: 'It contradicts itself, or would stop everything: nothing has changed' },
    handle: async ({ body, query, identity }) => ({
      status: 200,
      body: query.dry_run === 'true' ? await policy.preview(body) : await policy.set(body, identity.name),
    }),
  }),
  route({
    operationId: 'undoPolicy',
    tag: 'control',
    method: 'POST',
    path: '/control/policy/undo',
    role: 'admin',
    scope: 'global',
    summary:
      'Put back what was in force before the last change of the policy; a second call brings it back again',
    logsRefusals: true,
    body: UndoPolicy,
    answers: { 200: IN_FORCE, 409: 'There is nothing to undo, or the limits were set since' },
    handle: async ({ body, identity }) => ({
      status: 200,
      body: await policy.undo(identity.name, body.why),
    }),
  }),
  route({
    operationId: 'evictPool',
    tag: 'control',
    method: 'POST',
    path: '/control/evict_pool',
    role: 'admin',
    scope: 'global',
    summary:
      'Stop all workers of a worker pool at once, which ends it, or those of the pool of a pool manager when they have finished their jobs, which goes on',
    body: EvictPool,
    answers: {
      202: { description: 'Ordered, and durable', body: PoolEvicted },
      400: 'Both have this name: say which in `kind`',
      404: 'No such pool',
      409: 'The worker pool is over',
    },
    repeatable: ({ body }) => body,
    handle: async ({ body: { pool_id, kind }, identity }) => ({
      status: 202,
      body: { pool_id, workers: [...(await pools.evictAll(pool_id, kind, identity.name))] },
    }),
  }),
];
