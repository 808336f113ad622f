/** Assembles the routes of the brain's HTTP API into one table. */
import { Type } from 'typebox';
import type { Agents } from '../agents/agents.ts';
import type { ByteRoom } from '../kit/byte-room.ts';
import type { Env } from '../kit/env/env.ts';
import { IdMaker } from '../kit/ids.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';
import { Metrics } from '../telemetry/metrics.ts';
import type { Tally } from '../telemetry/tally.ts';
import { type Route, route } from '../wire/route.ts';
import type { Identity } from '../wire/tokens.ts';
import { approvalRoutes } from './approvals.ts';
import { batchRoutes, bulkCommandRoutes } from './batches.ts';
import { catalogRoutes } from './catalog.ts';
import { consumerRoutes } from './consumers.ts';
import { controlRoutes, type Reloading } from './control.ts';
import { Disconnects } from './disconnects.ts';
import { EventStreams } from './events.ts';
import { governanceRoutes } from './governance.ts';
import { jobsTableRoutes } from './jobs-table.ts';
import { leaseRoutes } from './leases.ts';
import { limitRoutes } from './limits.ts';
import { mcpRoute } from './mcp.ts';
import { mcpRoutes } from './mcp-servers.ts';
import { type MetaOptions, metaRoutes } from './meta.ts';
import { modelRouteRoutes } from './model-routes.ts';
import { type ModuleDirectory, moduleRoutes } from './modules.ts';
import { OpenStreams } from './open-streams.ts';
import { LargeResults } from './openai/large-results.ts';
import { listedModels } from './openai/models.ts';
import { openAiRoutes } from './openai/routes.ts';
import { openApi } from './openapi.ts';
import { poolRoutes } from './pools.ts';
import { priceRoutes } from './prices.ts';
import { runReplayRoutes } from './run-replays.ts';
import { runRoutes } from './runs.ts';
import { scalingRoute } from './scaling.ts';
import { scheduleRoutes } from './schedules.ts';
import { seatRoutes } from './seats.ts';
import { sessionListRoutes } from './session-lists.ts';
import { sessionRoutes } from './sessions.ts';
import { statusRoute } from './status.ts';
import { jobCommandRoutes, taskRoutes } from './tasks.ts';
import { usageRoutes } from './usage.ts';
import { workerPoolRoutes } from './worker-pools.ts';

export interface ApiOptions extends MetaOptions {
  readonly env: Env;
  readonly heartbeatMs: number;
  readonly leaseTtlMs: number;
  /** How long a job with `on_disconnect: cancel` runs on after its last follower has disconnected. */
  readonly disconnectGraceMs: number;
  readonly maxStreamsPerCaller: number;
  /** For each tenant other than the default. */
  readonly maxStreamsPerTenant: number;
  /** Whether the token of a caller has been revoked since the caller was accepted. */
  readonly isRevoked: (identity: Identity) => boolean;
  readonly verifyPolicy: 'warn' | 'block';
  /** The counters of this process, which /metrics shows. */
  readonly tally: Tally;
  /** The memory for large answers, which the server shares. */
  readonly answerRoom: ByteRoom;
  readonly agents: Agents;
  /** The modules of the brain. */
  readonly modules: ModuleDirectory;
  readonly reloading: Reloading;
}

const LEASE_TOKEN_BYTES = 32;
const CONSUMER_ID_BYTES = 16;

export function apiRoutes(orchestrator: Orchestrator, options: ApiOptions): readonly Route[] {
  const metrics = new Metrics(orchestrator, options.tally);
  const openStreams = new OpenStreams(options.maxStreamsPerCaller, options.maxStreamsPerTenant);
  const { env, heartbeatMs, disconnectGraceMs: graceMs, isRevoked } = options;
  const disconnects = new Disconnects(orchestrator, { timers: options.env.timers, graceMs, isRevoked });
  const streams = new EventStreams(orchestrator, { ...options, openStreams, disconnects });
  const ids = new IdMaker(options.env.random);
  const newId = (): string => ids.next(options.env.clock.now());
  const results = new LargeResults(options.answerRoom, env.timers);
  const models = listedModels(orchestrator, options.agents, Math.floor(env.clock.now() / 1000));
  const routes: Route[] = [
    ...[...taskRoutes(orchestrator, newId, openStreams, env.timers), ...bulkCommandRoutes(orchestrator)],
    ...[...jobCommandRoutes(orchestrator), ...jobsTableRoutes(orchestrator)],
    ...batchRoutes(orchestrator, openStreams, env.timers),
    streams.route,
    ...approvalRoutes(orchestrator),
    ...runReplayRoutes({ orchestrator, agents: options.agents, env, newId, currency: options.currency }),
    ...runRoutes({ orchestrator, agents: options.agents, env, heartbeatMs, openStreams, newId }),
    ...mcpRoutes(options.agents),
    ...leaseRoutes(orchestrator, options.leaseTtlMs, () => options.env.random.hex(LEASE_TOKEN_BYTES)),
    ...sessionListRoutes(orchestrator),
    ...sessionRoutes(orchestrator, newId),
    ...limitRoutes(orchestrator),
    ...modelRouteRoutes(orchestrator),
    ...priceRoutes(orchestrator, options.currency),
    ...seatRoutes(orchestrator),
    ...moduleRoutes(options.modules),
    ...usageRoutes(orchestrator, { currency: options.currency, openStreams, timers: env.timers }),
    ...scheduleRoutes(orchestrator),
    ...governanceRoutes(orchestrator),
    ...controlRoutes(orchestrator, options.reloading),
    ...[...poolRoutes(orchestrator), ...workerPoolRoutes(orchestrator, newId), scalingRoute(orchestrator)],
    ...consumerRoutes(orchestrator, () => env.random.hex(CONSUMER_ID_BYTES)),
    ...catalogRoutes(orchestrator, { env, heartbeatMs, verifyPolicy: options.verifyPolicy }),
    ...openAiRoutes({
      orchestrator,
      env,
      heartbeatMs,
      agents: options.agents,
      models,
      openStreams,
      disconnects,
      results,
      currency: options.currency,
    }),
    ...metaRoutes(orchestrator, metrics, options),
    statusRoute(orchestrator, options),
  ];
  routes.push(mcpRoute({ env, version: options.version, heartbeatMs, openStreams, newId, routes }));
  // Written at the first request and kept: it does not change, and takes 10 ms.
  let document: string | undefined;
  routes.push(
    route({
      operationId: 'getOpenApi',
      tag: 'server',
      method: 'GET',
      path: '/openapi.json',
      role: 'public',
      summary: 'This document',
      ignoresQuery: true,
      answers: { 200: { description: 'OpenAPI 3.1', body: Type.Record(Type.String(), Type.Unknown()) } },
      handle: () => {
        document ??= JSON.stringify(openApi(routes, options.version));
        return { status: 200, json: document };
      },
    }),
  );
  return routes;
}
