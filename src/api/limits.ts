/** The limits of callers, which hold from the moment they are set. */
import { limitList, limitSpecs } from '../config/limits.ts';
import { LimitsView, SetLimits } from '../model/http/limits.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';
import { type Route, route } from '../wire/route.ts';

export const limitRoutes = ({ limits, reads }: Orchestrator): readonly Route[] => [
  route({
    operationId: 'getLimits',
    tag: 'limits',
    method: 'GET',
    path: '/v2/limits',
    role: 'read',
    summary: 'The limits in force',
    answers: { 200: { description: 'The limits', body: LimitsView } },
    handle: async () => ({ status: 200, body: { limits: limitList(await reads.limits()) } }),
  }),
  route({
    operationId: 'setLimits',
    tag: 'limits',
    method: 'PUT',
    path: '/v2/limits',
    role: 'admin',
    summary: 'Replace the limits, those of the configuration too; what callers have used counts on',
    body: SetLimits,
    answers: {
      200: { description: 'They hold, and are durable', body: LimitsView },
      400: 'One makes no sense: nothing has changed',
    },
    repeatable: ({ body }) => body,
    handle: async ({ body, identity }) => ({
      status: 200,
      body: { limits: limitList(await limits.set(limitSpecs(body.limits), identity.name)) },
    }),
  }),
];
