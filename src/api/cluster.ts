/** The routes of a node in a cluster: what it answers by itself, and what the leader is asked for. */
import type { Leader } from '../core/ports/leadership.ts';
import type { LeaderView } from '../model/http/meta.ts';
import type { Route } from '../wire/route.ts';
import type { Forwarder } from './forward.ts';

/** Every node answers these for itself. */
const OWN = new Set(['/health', '/ready', '/leader', '/metrics', '/openapi.json']);

const keyOf = ({ method, path }: Route): string => `${method} ${path}`;

/** The routes of one brain by their names. */
export const routeTable = (routes: readonly Route[]): ReadonlyMap<string, Route> =>
  new Map(routes.map((route) => [keyOf(route), route]));

export const routeIn = (table: ReadonlyMap<string, Route>, route: Route): Route | undefined =>
  table.get(keyOf(route));

/** `present` is the table of the brain that runs here, or of one that does not run. */
export function clusterRoutes(
  shape: readonly Route[],
  forwarder: Forwarder,
  present: () => ReadonlyMap<string, Route>,
): readonly Route[] {
  return shape.map((route) => ({
    ...route,
    handle: (call) =>
      OWN.has(route.path) ? (routeIn(present(), route) ?? route).handle(call) : forwarder.handle(route, call),
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
