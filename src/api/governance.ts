/** The routes of governance: the mode that is in force, and the rules. They concern all tenants. */
import { GovernanceView, SetMode } from '../model/http/governance.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';
import { type Route, route } from '../wire/route.ts';

export const governanceRoutes = ({ governance }: Orchestrator): readonly Route[] => [
  route({
    operationId: 'getGovernance',
    tag: 'governance',
    method: 'GET',
    path: '/v2/governance',
    role: 'read',
    scope: 'global',
    summary: 'The mode, who set it and why, what it allows, and the last broken rules',
    answers: { 200: { description: 'The mode and the rules', body: GovernanceView } },
    handle: async () => ({ status: 200, body: await governance.view() }),
  }),
  route({
    operationId: 'setMode',
    tag: 'governance',
    method: 'PUT',
    path: '/v2/governance/mode',
    role: 'admin',
    scope: 'global',
    summary: 'Set the mode, with a reason; what it forbids starts no more from then on',
    logsRefusals: true,
    body: SetMode,
    answers: {
      200: { description: 'The mode is in force, and durable', body: GovernanceView },
      409: 'This mode cannot follow the present one: nothing has changed',
    },
    handle: async ({ body, identity }) => ({
      status: 200,
      body: await governance.setByPerson(body, identity.name),
    }),
  }),
];
