/** The routes of worker pools: groups of workers, or of consumers, that are kept at a wished size. */
import {
  ChangeWorkerPool,
  CreateWorkerPool,
  DrainWorkerPool,
  WorkerPoolDeleted,
  WorkerPoolHeartbeat,
  WorkerPoolList,
  WorkerPoolView,
} from '../model/http/worker-pools.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';
import { type Call, type Route, route } from '../wire/route.ts';

const idOf = ({ params }: Pick<Call, 'params'>): string => params['id'] ?? '';

const NO_POOL = 'No such worker pool';
const POOL = { description: 'The pool, and durable', body: WorkerPoolView };
const ORDERED = { description: 'Ordered, and durable', body: WorkerPoolView };

/** Read at each call: a node that does not lead has none. */
const poolsOf = ({ pools }: Orchestrator): Orchestrator['pools']['workerPools'] => pools.workerPools;

export const workerPoolRoutes = (orchestrator: Orchestrator, newId: () => string): readonly Route[] => [
  ...readRoutes(orchestrator),
  ...sizeRoutes(orchestrator, newId),
  heartbeatRoute(orchestrator),
  ...endRoutes(orchestrator),
];

const readRoutes = (orchestrator: Orchestrator): readonly Route[] => [
  route({
    operationId: 'listWorkerPools',
    tag: 'pools',
    method: 'GET',
    path: '/workers/pool',
    role: 'read',
    scope: 'global',
    summary: 'The worker pools, with how many workers each should have and has',
    answers: { 200: { description: 'The pools', body: WorkerPoolList } },
    handle: async () => ({ status: 200, body: { pools: [...(await poolsOf(orchestrator).list())] } }),
  }),
  route({
    operationId: 'getWorkerPool',
    tag: 'pools',
    method: 'GET',
    path: '/workers/pool/:id',
    role: 'read',
    scope: 'global',
    summary: 'One worker pool',
    answers: { 200: { description: 'The pool', body: WorkerPoolView }, 404: NO_POOL },
    handle: async (call) => ({ status: 200, body: await poolsOf(orchestrator).get(idOf(call)) }),
  }),
];

const sizeRoutes = (orchestrator: Orchestrator, newId: () => string): readonly Route[] => [
  route({
    operationId: 'createWorkerPool',
    tag: 'pools',
    method: 'POST',
    path: '/workers/pool',
    role: 'operate',
    scope: 'global',
    summary: 'Create a worker pool, or one anew that is over',
    logsRefusals: true,
    body: CreateWorkerPool,
    answers: {
      201: POOL,
      404: 'No such model',
      409: 'There is such a pool already, or no device is large enough for the model',
    },
    repeatable: ({ body }) =>
      typeof body === 'object' && body !== null && !('pool_id' in body)
        ? { ...body, pool_id: newId() }
        : body,
    handle: async ({ body, identity }) => ({
      status: 201,
      body: await poolsOf(orchestrator).create(body.pool_id ?? newId(), body, identity.name),
    }),
  }),
  route({
    operationId: 'changeWorkerPool',
    tag: 'pools',
    method: 'PUT',
    path: '/workers/pool/:id',
    role: 'operate',
    scope: 'global',
    summary: 'Change the size of a worker pool, or how long it is held; what is left out stays',
    body: ChangeWorkerPool,
    answers: { 200: POOL, 404: NO_POOL, 409: 'It is over' },
    handle: async (call) => {
      const { desired_workers: desired, hold_seconds: hold } = call.body;
      const holdMs = hold === undefined ? undefined : hold * 1000;
      const order = { is: 'change', desired, holdMs } as const;
      return {
        status: 200,
        body: await poolsOf(orchestrator).command(idOf(call), order, call.identity.name),
      };
    },
  }),
];

const heartbeatRoute = (orchestrator: Orchestrator): Route =>
  route({
    operationId: 'workerPoolHeartbeat',
    tag: 'pools',
    method: 'POST',
    path: '/workers/pool/:id/heartbeat',
    role: 'consumer',
    scope: 'global',
    summary: 'Say how many workers of a pool run, and hear how many there should be',
    body: WorkerPoolHeartbeat,
    answers: {
      200: POOL,
      404: 'No such worker pool: it was deleted',
      409: 'Pool managers start its workers',
    },
    repeatable: ({ body }) => body,
    handle: async (call) => {
      const order = { is: 'heartbeat', spawned: call.body.spawned_workers } as const;
      return {
        status: 200,
        body: await poolsOf(orchestrator).command(idOf(call), order, call.identity.name),
      };
    },
  });

const endRoutes = (orchestrator: Orchestrator): readonly Route[] => [
  route({
    operationId: 'drainWorkerPool',
    tag: 'pools',
    method: 'POST',
    path: '/workers/pool/:id/drain',
    role: 'operate',
    scope: 'global',
    summary: 'Give a worker pool no new jobs, let those that run finish, and stop its workers',
    body: DrainWorkerPool,
    answers: { 202: ORDERED, 404: NO_POOL, 409: 'It is over' },
    repeatable: ({ body }) => body,
    handle: async (call) => {
      const grace = call.body.grace_seconds;
      const order = { is: 'drain', graceMs: grace === undefined ? undefined : grace * 1000 } as const;
      return {
        status: 202,
        body: await poolsOf(orchestrator).command(idOf(call), order, call.identity.name),
      };
    },
  }),
  route({
    operationId: 'evictWorkerPool',
    tag: 'pools',
    method: 'POST',
    path: '/workers/pool/:id/evict',
    role: 'admin',
    scope: 'global',
    summary: 'Stop the workers of a worker pool at once, with whatever runs on them',
    answers: { 202: ORDERED, 404: NO_POOL, 409: 'It is over' },
    repeatable: () => undefined,
    handle: async (call) => ({
      status: 202,
      body: await poolsOf(orchestrator).command(idOf(call), { is: 'evict' }, call.identity.name),
    }),
  }),
  route({
    operationId: 'deleteWorkerPool',
    tag: 'pools',
    method: 'DELETE',
    path: '/workers/pool/:id',
    role: 'admin',
    scope: 'global',
    summary: 'Remove the row of a worker pool that is over',
    answers: {
      200: { description: 'Removed, and durable', body: WorkerPoolDeleted },
      404: NO_POOL,
      409: 'It is not over: drain or evict it first',
    },
    repeatable: () => undefined,
    handle: async (call) => {
      await poolsOf(orchestrator).delete(idOf(call));
      return { status: 200, body: { deleted: true, pool_id: idOf(call) } };
    },
  }),
];
