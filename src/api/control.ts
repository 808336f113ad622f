/** Orders of an operator to the brain as a whole. */
import { ReconcileReport, ReconcileReports } from '../model/http/control.ts';
import { ReloadReport, ReloadReports } from '../model/http/reload.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';
import { type Route, route } from '../wire/route.ts';
import { policyRoutes } from './policy.ts';

/** The configuration of the server that answers. */
export interface Reloading {
  readonly reports: readonly ReloadReport[];
  /** Throws CONFIG_INVALID or NO_CONFIG_FILE; then nothing has changed. */
  reload(by: string): Promise<ReloadReport>;
}

export const controlRoutes = (orchestrator: Orchestrator, reloading: Reloading): readonly Route[] => [
  ...policyRoutes(orchestrator),
  ...reloadRoutes(reloading),
  ...reconcileRoutes(orchestrator),
];

const reloadRoutes = (reloading: Reloading): readonly Route[] => [
  route({
    operationId: 'reload',
    tag: 'control',
    method: 'POST',
    path: '/control/reload',
    role: 'operate',
    scope: 'global',
    summary:
      'Read the configuration file again and take over seats, gateways, modules and schedules; with one fault in it nothing changes',
    answers: {
      200: { description: 'What has changed, and what needs a restart', body: ReloadReport },
      400: 'Something in the configuration is wrong: nothing has changed',
      409: 'The server was started without a configuration file',
    },
    handle: async ({ identity }) => ({ status: 200, body: await reloading.reload(identity.name) }),
  }),
  route({
    operationId: 'getReloads',
    tag: 'control',
    method: 'GET',
    path: '/control/reload',
    role: 'read',
    scope: 'global',
    summary: 'The last reloads of the configuration since the start, also those that were refused',
    answers: { 200: { description: 'The reports, the latest first', body: ReloadReports } },
    handle: () => ({ status: 200, body: { reports: [...reloading.reports] } }),
  }),
];

const reconcileRoutes = ({ reconciliation }: Orchestrator): readonly Route[] => [
  route({
    operationId: 'reconcile',
    tag: 'control',
    method: 'POST',
    path: '/control/reconcile',
    role: 'operate',
    scope: 'global',
    summary:
      'Compare the open attempts with what the executors run, settle what is unknown, end what nobody knows',
    answers: { 200: { description: 'What was found', body: ReconcileReport } },
    handle: async ({ identity }) => ({ status: 200, body: await reconciliation.run(identity.name) }),
  }),
  route({
    operationId: 'getReconciliations',
    tag: 'control',
    method: 'GET',
    path: '/control/reconcile',
    role: 'read',
    scope: 'global',
    summary: 'The reconciliation of the start, and the last ones that were ordered',
    answers: { 200: { description: 'The reports', body: ReconcileReports } },
    handle: async () => ({ status: 200, body: { reports: [...reconciliation.reports] } }),
  }),
];
