/** The routes of pools and their workers: list, register, drain, reload and forget pools, evict workers. */
import { isHttpUrl } from '../config/address.ts';
import { workerReasonText } from '../model/causes.ts';
import { OrchdError } from '../model/errors.ts';
import {
  DrainPool,
  EvictWorker,
  PoolList,
  PoolRegistered,
  PoolView,
  ReloadPool,
  WorkerEvicted,
} from '../model/http/pools.ts';
import { RegisterPool } from '../model/pool-wire.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';
import { type Call, type Route, route } from '../wire/route.ts';

const idOf = ({ params }: Pick<Call, 'params'>): string => params['id'] ?? '';

const ORDERED = 'Ordered, and durable';
const NO_POOL = 'No such pool';

export const poolRoutes = (orchestrator: Orchestrator): readonly Route[] => [
  ...readRoutes(orchestrator),
  registerRoute(orchestrator),
  drainRoute(orchestrator),
  reloadRoute(orchestrator),
  forgetRoute(orchestrator),
  evictRoute(orchestrator),
];

const readRoutes = ({ reads }: Orchestrator): readonly Route[] => [
  route({
    operationId: 'listPools',
    tag: 'pools',
    method: 'GET',
    path: '/v2/pools',
    role: 'read',
    scope: 'global',
    summary: 'The pools, their devices and workers',
    answers: { 200: { description: 'The pools', body: PoolList } },
    handle: async () => ({ status: 200, body: { pools: await reads.pools() } }),
  }),
  route({
    operationId: 'getPoolHealth',
    tag: 'pools',
    method: 'GET',
    path: '/v2/pools/:id/health',
    role: 'read',
    scope: 'global',
    summary: 'One pool: whether it answers, its devices and workers',
    answers: { 200: { description: 'The pool', body: PoolView }, 404: NO_POOL },
    handle: async (call) => ({ status: 200, body: await reads.pool(idOf(call)) }),
  }),
];

const registerRoute = ({ managers }: Orchestrator): Route =>
  route({
    operationId: 'registerPool',
    tag: 'pools',
    method: 'POST',
    path: '/v2/pools/register',
    role: 'pool',
    scope: 'global',
    summary: 'Register the address of a pool manager; repeated as a heartbeat',
    body: RegisterPool,
    answers: {
      200: { description: 'Registered', body: PoolRegistered },
      403: 'No pool may register at this host',
      409: 'Another pool manager has the name, and is alive',
    },
    repeatable: ({ body }) => body,
    handle: ({ body: { pool_id, uri, token } }) => {
      if (!managers) throw new OrchdError('POOL_UNAVAILABLE', 'this brain is configured without pools');
      if (!isPlainUrl(uri)) {
        const what = '"uri" must be an http or https URL without a path, a password, a query or a fragment';
        throw new OrchdError('INVALID_PARAMS', what, { field: 'uri' });
      }
      managers.register(uri, token, pool_id);
      return { status: 200, body: { pool_id } };
    },
  });

const drainRoute = ({ pools, reads }: Orchestrator): Route =>
  route({
    operationId: 'drainPool',
    tag: 'pools',
    method: 'POST',
    path: '/v2/pools/:id/drain',
    role: 'admin',
    scope: 'global',
    summary:
      'Give a pool no new jobs, and stop its workers when they are idle or the deadline has passed; or undo that',
    body: DrainPool,
    answers: { 202: { description: ORDERED, body: PoolView }, 404: NO_POOL },
    repeatable: ({ body }) => body,
    handle: async (call) => {
      const { deadline_ms, undo } = call.body;
      const order = undo ? ({ is: 'undrain' } as const) : ({ is: 'drain', deadlineMs: deadline_ms } as const);
      await pools.command(idOf(call), order, call.identity.name);
      return { status: 202, body: await reads.pool(idOf(call)) };
    },
  });

const reloadRoute = ({ pools, reads }: Orchestrator): Route =>
  route({
    operationId: 'reloadPool',
    tag: 'pools',
    method: 'POST',
    path: '/v2/pools/:id/reload',
    role: 'admin',
    scope: 'global',
    summary: 'Let the workers of a pool finish, and start one with another model in their place',
    body: ReloadPool,
    answers: { 202: { description: ORDERED, body: PoolView }, 404: 'No such pool, or no such model' },
    repeatable: ({ body }) => body,
    handle: async (call) => {
      const order = { is: 'reload', model: call.body.new_model_ref } as const;
      await pools.command(idOf(call), order, call.identity.name);
      return { status: 202, body: await reads.pool(idOf(call)) };
    },
  });

const forgetRoute = ({ pools, managers }: Orchestrator): Route =>
  route({
    operationId: 'forgetPool',
    tag: 'pools',
    method: 'DELETE',
    path: '/v2/pools/:id',
    role: 'admin',
    scope: 'global',
    summary: 'Declare an unreachable pool gone for good: its jobs are retried elsewhere',
    answers: { 204: 'Forgotten', 404: NO_POOL, 409: 'The pool is alive' },
    handle: async (call) => {
      await pools.forget(idOf(call), call.identity.name);
      managers?.forgetPool(idOf(call));
      return { status: 204 };
    },
  });

const evictRoute = ({ pools }: Orchestrator): Route =>
  route({
    operationId: 'evictWorker',
    tag: 'pools',
    method: 'POST',
    path: '/v2/workers/:id/evict',
    role: 'admin',
    scope: 'global',
    summary:
      'Stop a worker; a busy one finishes its jobs first. With dead: the caller vouches that its process is gone already',
    body: EvictWorker,
    answers: { 202: { description: ORDERED, body: WorkerEvicted }, 404: 'No such worker' },
    repeatable: ({ body }) => body,
    handle: async (call) => {
      const { dead = false } = call.body;
      const { pool, state, why } = await pools.evict(idOf(call), call.identity.name, dead);
      return { status: 202, body: { worker_id: idOf(call), pool, state, why: workerReasonText(why) } };
    },
  });

function isPlainUrl(text: string): boolean {
  const url = URL.parse(text);
  return url !== null && isHttpUrl(text) && url.pathname === '/' && url.search === '' && url.hash === '';
}
