/** The routes about the server itself: health, readiness, leader, metrics, capabilities. */
import { Capabilities, Health, LeaderView, Readiness } from '../model/http/meta.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { type Route, route } from '../wire/route.ts';
import { type Identity, isOperator } from '../wire/tokens.ts';

export interface MetaOptions {
  readonly version: string;
  readonly queuePolicy: string;
  readonly queueCapacity: number;
  /** The currency of all prices and costs. */
  readonly currency: string;
  readonly store: string;
  readonly uptimeMs: () => number;
  /** In a cluster: the leader, and whether it is this node. */
  readonly leader?: () => LeaderView;
  /** On a node without a brain: whether there is a leader to forward requests to. */
  readonly canForward?: () => boolean;
  /** What is wrong with Redis, if it is used: jobs go on, and consumers ask for them themselves. */
  readonly redisProblems?: (() => readonly string[]) | undefined;
}

export const metaRoutes = (
  orchestrator: Orchestrator,
  metrics: Metrics,
  options: MetaOptions,
): readonly Route[] => [
  healthRoute(orchestrator, options),
  leaderRoute(orchestrator, options),
  readyRoute(orchestrator, options),
  route({
    operationId: 'getMetrics',
    tag: 'server',
    method: 'GET',
    path: '/metrics',
    role: 'read',
    scope: 'global',
    summary: 'Metrics in the Prometheus format',
    ignoresQuery: true,
    answers: { 200: { description: 'The metrics', type: 'text/plain' } },
    handle: async () => ({
      status: 200,
      text: { type: metrics.contentType, content: await metrics.render() },
    }),
  }),
  route({
    operationId: 'getCapabilities',
    tag: 'server',
    method: 'GET',
    path: '/v2/meta/capabilities',
    role: 'read',
    summary: 'What this brain can do: backends, types, models, limits',
    answers: { 200: { description: 'The capabilities', body: Capabilities } },
    handle: ({ identity }) => ({ status: 200, body: capabilities(orchestrator, options, identity) }),
  }),
];

export function healthOf(
  { failure, reads }: Orchestrator,
  { redisProblems }: Pick<MetaOptions, 'redisProblems'>,
): Health['status'] {
  if (failure) return 'failed';
  if (redisProblems && redisProblems().length > 0) return 'degraded';
  const { full, isDiverged, missingBlobFiles } = reads;
  return full || isDiverged || missingBlobFiles > 0 ? 'degraded' : 'ok';
}

const healthRoute = (orchestrator: Orchestrator, options: MetaOptions): Route =>
  route({
    operationId: 'getHealth',
    tag: 'server',
    method: 'GET',
    path: '/health',
    role: 'public',
    answersAnyHost: true,
    summary: 'Whether the process is alive and healthy',
    ignoresQuery: true,
    answers: {
      200: { description: 'Alive', body: Health },
      503: { description: 'The brain has stopped', body: Health },
    },
    handle: () => {
      const { full, missingBlobFiles } = orchestrator.reads;
      const body: Health = {
        status: healthOf(orchestrator, options),
        version: options.version,
        uptime_ms: Math.round(options.uptimeMs()),
        disk_full: full,
        missing_blob_files: missingBlobFiles,
        ...(options.redisProblems && { redis_problems: [...options.redisProblems()] }),
      };
      return { status: body.status === 'failed' ? 503 : 200, body };
    },
  });

const leaderRoute = (orchestrator: Orchestrator, options: MetaOptions): Route =>
  route({
    operationId: 'getLeader',
    tag: 'server',
    method: 'GET',
    path: '/leader',
    role: 'public',
    summary: 'Whether this node leads, and the address of the leader',
    ignoresQuery: true,
    answers: { 200: { description: 'The leader', body: LeaderView } },
    handle: () => ({ status: 200, body: options.leader?.() ?? singleNodeLeader(orchestrator) }),
  });

const readyRoute = (orchestrator: Orchestrator, options: MetaOptions): Route =>
  route({
    operationId: 'getReadiness',
    tag: 'server',
    method: 'GET',
    path: '/ready',
    role: 'public',
    answersAnyHost: true,
    summary: 'Whether new work is accepted',
    ignoresQuery: true,
    answers: {
      200: { description: 'New work is accepted', body: Readiness },
      503: { description: 'New work is not accepted', body: Readiness },
    },
    handle: () => {
      const { running, failure, reads } = orchestrator;
      const works = running && !failure && !reads.full && !reads.paused;
      const ready = works || (options.canForward?.() ?? false);
      return { status: ready ? 200 : 503, body: { ready } };
    },
  });

/** The leader view of a brain without a cluster, which leads as long as it runs. */
export const singleNodeLeader = (orchestrator: Orchestrator): LeaderView => ({
  is_leader: orchestrator.running && !orchestrator.failure,
  node: null,
  leader: null,
  address: null,
  epoch: orchestrator.reads.epoch ?? null,
  main_loop_silent_ms: null,
  lock_name: null,
});

/** The backends; how many of their slots all tenants use is shown to the operator only. */
export function backendsFor({ reads }: Orchestrator, caller: Identity): Capabilities['backends'] {
  const backends = reads.backends();
  return isOperator(caller) ? backends : backends.map(({ used: _, paused: __, ...rest }) => rest);
}

function capabilities(orchestrator: Orchestrator, options: MetaOptions, caller: Identity): Capabilities {
  return {
    version: options.version,
    api_versions: ['v2'],
    store: options.store,
    priorities: ['interactive', 'batch'],
    queue: { capacity: options.queueCapacity, policy: options.queuePolicy },
    currency: options.currency,
    backends: backendsFor(orchestrator, caller),
  };
}
