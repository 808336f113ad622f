/** The HTTP routes of a pool manager. */
import { Type } from 'typebox';
import type { Env } from '../../kit/env/env.ts';
import { OrchdError } from '../../model/errors.ts';
import { parseModelRef } from '../../model/model-ref.ts';
import {
  DrainWorker,
  PoolState,
  ResolvedModel,
  ResolveModel,
  StartWorker,
  StopWorker,
  WorkerOrdered,
  WorkerReady,
} from '../../model/pool-wire.ts';
import { type Call, type Route, route } from '../../wire/route.ts';
import type { StateFeed } from '../execution/state-feed.ts';
import { MAX_WAIT_MS } from '../execution/state-feed.ts';
import type { EpochFile } from './epoch-file.ts';
import type { Launches } from './launches.ts';
import type { ModelFiles } from './model-files.ts';
import { verifyRoute } from './verify-route.ts';
import type { Workers } from './workers.ts';

const StateQuery = Type.Object(
  {
    after: Type.Optional(Type.String({ pattern: '^[0-9]{1,15}$' })),
    wait_ms: Type.Optional(Type.String({ pattern: '^[0-9]{1,9}$' })),
  },
  { additionalProperties: false },
);

const Alive = Type.Object({ status: Type.Literal('ok'), workers: Type.Integer() });
const Ready = Type.Object({ status: Type.Literal('ready') });

export interface PoolRouteContext {
  readonly env: Env;
  readonly workers: Workers;
  readonly models: ModelFiles;
  readonly epochs: EpochFile;
  readonly feed: StateFeed;
  /** Called when a brain leaves while it waits for a change: it has ended, or lost its connection. */
  readonly brainLeft: () => void;
  readonly launches: Launches;
  readonly state: () => PoolState;
}

export function poolRoutes(parts: PoolRouteContext): Route[] {
  const { env, models } = parts;
  return [
    health(parts),
    state(parts),
    ...orders(parts),
    ready(parts),
    resolve(parts),
    verifyRoute(env, models),
  ];
}

const health = ({ workers }: PoolRouteContext): Route =>
  route({
    operationId: 'getHealth',
    tag: 'pool manager',
    method: 'GET',
    path: '/health',
    role: 'public',
    summary: 'Whether the process is alive',
    ignoresQuery: true,
    answers: { 200: { description: 'Alive', body: Alive } },
    handle: () => ({ status: 200, body: { status: 'ok', workers: workers.count } }),
  });

const state = ({ feed, state: now, brainLeft }: PoolRouteContext): Route =>
  route({
    operationId: 'getState',
    tag: 'pool manager',
    method: 'GET',
    path: '/v2/state',
    role: 'operate',
    summary: `Devices and workers; waits for a change of version, for ${MAX_WAIT_MS} ms at most`,
    query: StateQuery,
    answers: { 200: { description: 'Devices and workers', body: PoolState } },
    async handle({ query, onDisconnect }) {
      const { after, wait_ms } = query;
      onDisconnect(brainLeft);
      await feed.waitForChange(after === undefined ? undefined : Number(after), Number(wait_ms ?? 0));
      return { status: 200, body: now() };
    },
  });

const orders = ({ workers, epochs }: PoolRouteContext): Route[] => [
  route({
    operationId: 'startWorker',
    tag: 'pool manager',
    method: 'POST',
    path: '/v2/workers/start',
    role: 'operate',
    summary: 'Start a worker; the same id again is the same worker',
    body: StartWorker,
    answers: {
      200: { description: 'The worker is starting', body: WorkerOrdered },
      409: 'No room, or another order with this id',
    },
    async handle({ body, headers }) {
      await epochs.check(headers);
      return { status: 200, body: await workers.startWorker(body) };
    },
  }),
  route({
    operationId: 'stopWorker',
    tag: 'pool manager',
    method: 'POST',
    path: '/v2/workers/stop',
    role: 'operate',
    summary: 'Stop a worker; it leaves the state when its process has ended',
    body: StopWorker,
    answers: {
      200: { description: 'The worker is stopping', body: WorkerOrdered },
      404: 'No such worker',
      503: 'It runs jobs of another brain',
    },
    async handle({ body, headers }) {
      const { worker_id } = body;
      const by = await epochs.check(headers);
      return { status: 200, body: await workers.stopWorker(worker_id, by) };
    },
  }),
  route({
    operationId: 'drainWorker',
    tag: 'pool manager',
    method: 'POST',
    path: '/v2/workers/:id/drain',
    role: 'operate',
    summary: 'Let a worker finish its executions and accept no new ones',
    body: DrainWorker,
    answers: {
      200: { description: 'The worker drains', body: WorkerOrdered },
      404: 'No such worker',
      503: 'It runs jobs of another brain',
    },
    async handle({ params, body, headers }) {
      const { deadline_ms } = body;
      const by = await epochs.check(headers);
      return { status: 200, body: await workers.drainWorker(params['id'] ?? '', deadline_ms, by) };
    },
  }),
];

/** `public` for the gate because the route checks the worker's own secret, which is valid for this route only. */
const ready = ({ workers }: PoolRouteContext): Route =>
  route({
    operationId: 'reportReady',
    tag: 'pool manager',
    method: 'POST',
    path: '/v2/internal/workers/ready',
    role: 'public',
    summary: 'A worker reports that it is ready, with the secret it was started with',
    authorize: secretOf,
    body: WorkerReady,
    answers: {
      200: { description: 'The worker counts as ready', body: Ready },
      401: 'No worker has this id and secret',
    },
    async handle({ body, headers }) {
      await workers.ready(body, secretOf(headers));
      return { status: 200, body: { status: 'ready' } };
    },
  });

const resolve = ({ launches }: PoolRouteContext): Route =>
  route({
    operationId: 'resolveModel',
    tag: 'pool manager',
    method: 'POST',
    path: '/v2/models/resolve',
    role: 'operate',
    summary: 'Resolve a model reference to the revision and file that this pool has',
    body: ResolveModel,
    answers: {
      200: { description: 'The model', body: ResolvedModel },
      404: 'The pool does not have the model',
    },
    async handle({ body }) {
      const { model_ref } = body;
      return { status: 200, body: await launches.resolve(parseModelRef(model_ref)) };
    },
  });

function secretOf({ authorization }: Call['headers']): string {
  const secret = /^Bearer ([!-~]{1,200})$/i.exec(authorization ?? '')?.[1];
  if (secret === undefined) throw new OrchdError('UNAUTHORIZED');
  return secret;
}
