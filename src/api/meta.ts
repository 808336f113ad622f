/** Routes about the brain itself. */
import type { Orchestrator } from '../runtime/orchestrator.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { Route } from '../wire/route.ts';

export interface MetaOptions {
  readonly version: string;
  readonly queuePolicy: string;
  readonly queueCapacity: number;
  readonly store: string;
  readonly uptimeMs: () => number;
  /** Of a node in a cluster: whether it leads, and who does. */
  readonly leader?: () => object;
  /** Of a node without a brain: whether it knows whom to ask. */
  readonly canAsk?: () => boolean;
}

export function metaRoutes(orchestrator: Orchestrator, metrics: Metrics, options: MetaOptions): Route[] {
  const { reads } = orchestrator;
  return [
    {
      method: 'GET',
      path: '/health',
      role: 'public',
      summary: 'Whether the process is alive, and how it is',
      answers: { 200: 'Alive', 503: 'The brain has stopped' },
      handle: () => {
        const failed = orchestrator.failure !== undefined;
        const status = failed ? 'failed' : reads.full ? 'degraded' : 'ok';
        const body = {
          status,
          version: options.version,
          uptime_ms: Math.round(options.uptimeMs()),
          disk_full: reads.full,
        };
        return { status: failed ? 503 : 200, body };
      },
    },
    {
      method: 'GET',
      path: '/leader',
      role: 'public',
      summary: 'Whether this node leads, and where the one that does is reached',
      answers: { 200: 'Who leads' },
      handle: () => ({ status: 200, body: options.leader?.() ?? alone(orchestrator) }),
    },
    {
      method: 'GET',
      path: '/ready',
      role: 'public',
      summary: 'Whether new work is taken',
      answers: { 200: 'It is', 503: 'It is not' },
      handle: () => {
        const works = orchestrator.running && !orchestrator.failure && !reads.full && !reads.paused;
        const ready = works || (options.canAsk?.() ?? false);
        return { status: ready ? 200 : 503, body: { ready } };
      },
    },
    {
      method: 'GET',
      path: '/metrics',
      role: 'read',
      summary: 'Metrics in the Prometheus format',
      answers: { 200: 'The metrics' },
      handle: async () => ({
        status: 200,
        text: { type: metrics.contentType, content: await metrics.render() },
      }),
    },
    {
      method: 'GET',
      path: '/v2/meta/capabilities',
      role: 'read',
      summary: 'What this brain can do: backends, types, models, limits',
      answers: { 200: 'The capabilities' },
      handle: () => ({ status: 200, body: capabilities(orchestrator, options) }),
    },
  ];
}

/** A brain without a cluster leads while it lives. */
const alone = (orchestrator: Orchestrator): object => ({
  is_leader: orchestrator.running && !orchestrator.failure,
  node: null,
  leader: null,
  address: null,
  epoch: orchestrator.reads.epoch ?? null,
  main_loop_silent_ms: null,
  lock_name: null,
});

function capabilities({ reads }: Orchestrator, options: MetaOptions): object {
  return {
    version: options.version,
    api_versions: ['v2'],
    store: options.store,
    priorities: ['interactive', 'batch'],
    queue: { capacity: options.queueCapacity, policy: options.queuePolicy },
    backends: reads.backends(),
  };
}
