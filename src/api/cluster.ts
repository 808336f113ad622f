/** The routes of a node in a cluster: every node answers a few itself and forwards the others to the leader. */
import type { Leader } from '../core/ports/leadership.ts';
import type { LeaderView } from '../model/http/meta.ts';
import type { Route } from '../wire/route.ts';
import type { Forwarder } from './forward.ts';

/** Paths that every node answers itself. */
const ANSWERED_LOCALLY = new Set([
  '/health',
  '/ready',
  '/leader',
  '/metrics',
  '/openapi.json',
  // The configuration is a file of the node.
  '/control/reload',
]);

const keyOf = ({ method, path }: Route): string => `${method} ${path}`;

/** The routes of one brain by method and path. */
export const routeTable = (routes: readonly Route[]): ReadonlyMap<string, Route> =>
  new Map(routes.map((route) => [keyOf(route), route]));

export const routeIn = (table: ReadonlyMap<string, Route>, route: Route): Route | undefined =>
  table.get(keyOf(route));

/**
 * `definitions` are the routes to serve. `currentTable` returns the table of the brain that runs on this node, or of
 * its standby while the node does not lead; the routes that the node answers itself are looked up there.
 */
export function clusterRoutes(
  definitions: readonly Route[],
  forwarder: Forwarder,
  currentTable: () => ReadonlyMap<string, Route>,
): readonly Route[] {
  return definitions.map((route) => ({
    ...route,
    handle: (call) =>
      ANSWERED_LOCALLY.has(route.path)
        ? (routeIn(currentTable(), route) ?? route).handle(call)
        : forwarder.handle(route, call),
  }));
}

export const leaderView = (
  leader: Leader | undefined,
  isLeader: boolean,
  node: string,
  lockName: string | null,
): LeaderView => ({
  is_leader: isLeader,
  node,
  leader: leader?.node ?? null,
  address: leader?.address ?? null,
  epoch: leader?.epoch ?? null,
  main_loop_silent_ms: leader?.silentMs ?? null,
  lock_name: lockName,
});
