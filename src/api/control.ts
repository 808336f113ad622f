/** Orders of an operator to the brain as a whole. */
import { ReconcileReport, ReconcileReports } from '../model/http/control.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';
import { type Route, route } from '../wire/route.ts';

export const controlRoutes = ({ reconciliation }: Orchestrator): readonly Route[] => [
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
