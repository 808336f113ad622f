/** The backends as people see them, with what speaks against their use. */
import { scopes } from '../core/limits/limit.ts';
import { backendLeaseId } from '../core/state/leases.ts';
import type { EngineView } from '../core/turn.ts';
import type { BackendView } from '../model/http/meta.ts';
import type { Divergence } from './divergence.ts';
import { backendView } from './views.ts';

export function backendViews({ state, queue }: EngineView, found: Divergence['found']): BackendView[] {
  const problems = new Map(found.map(({ backend, what }) => [backend, what]));
  return [...queue.fleet.backends.values()].map((backend) => {
    const { name } = backend.info;
    const node = state.leases.get(backendLeaseId(name))?.record.agent;
    const away = backend.away ? `attempts are open on it at node "${node}", which does not lead` : undefined;
    const { paused } = state.tables.spent.get(scopes.seat(name)) ?? {};
    return backendView(backend, { problem: problems.get(name) ?? away, paused });
  });
}
