/** The route of the whole brain at one instant, for people who look at it and for pages that show it. */
import { Status } from '../model/http/status.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';
import type { Tally } from '../telemetry/tally.ts';
import { type Route, route } from '../wire/route.ts';
import { type Identity, isOperator } from '../wire/tokens.ts';
import { backendsFor, healthOf, type MetaOptions, singleNodeLeader } from './meta.ts';

export interface StatusOptions extends MetaOptions {
  readonly tally: Tally;
}

export const statusRoute = (orchestrator: Orchestrator, options: StatusOptions): Route =>
  route({
    operationId: 'getStatus',
    tag: 'server',
    method: 'GET',
    path: '/v2/meta/status',
    role: 'read',
    summary: 'The whole at one instant: queue, running and held jobs, backends, models, limits that are near',
    answers: { 200: { description: 'The status', body: Status } },
    handle: ({ identity }) => ({ status: 200, body: statusOf(orchestrator, options, identity) }),
  });

function statusOf(orchestrator: Orchestrator, options: StatusOptions, caller: Identity): Status {
  const { reads } = orchestrator;
  const forOperator = isOperator(caller);
  return {
    version: options.version,
    status: healthOf(orchestrator, options),
    disk_full: reads.full,
    paused: reads.paused,
    uptime_ms: Math.round(options.uptimeMs()),
    now: Math.round(reads.now),
    store: options.store,
    leader: options.leader?.() ?? singleNodeLeader(orchestrator),
    queue: {
      capacity: options.queueCapacity,
      policy: options.queuePolicy,
      ...(forOperator && { ready: { ...reads.figures().ready } }),
    },
    ...reads.status(caller.tenant),
    backends: backendsFor(orchestrator, caller),
    ...(forOperator && { totals: totalsOf(options.tally) }),
  };
}

const totalsOf = ({
  accepted,
  rejected,
  ended,
  conversations: { turns },
}: Tally): NonNullable<Status['totals']> => ({
  accepted,
  rejected: [...rejected.values()].reduce((sum, count) => sum + count, 0),
  succeeded: ended.succeeded,
  cancelled: ended.cancelled,
  dead: ended.dead,
  turns_held: turns.held,
  turns_moved: turns.moved,
});
