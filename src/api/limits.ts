/**
 * The routes of the callers' limits. New limits take effect at once. Callers of the default tenant read and set the
 * operator's limits, callers of another tenant only the limits that the tenant has set for itself.
 */
import { limitList, limitSpecs } from '../config/limits.ts';
import { LimitsView, SetLimits } from '../model/http/limits.ts';
import type { Shape } from '../model/http/shape.ts';
import type { LimitSpec } from '../model/limit-records.ts';
import { DEFAULT_TENANT } from '../model/records.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';
import { type Route, route } from '../wire/route.ts';
import { type Identity, isOperator } from '../wire/tokens.ts';

export const limitRoutes = ({ limits, reads }: Orchestrator): readonly Route[] => [
  route({
    operationId: 'getLimits',
    tag: 'limits',
    method: 'GET',
    path: '/v2/limits',
    role: 'read',
    summary: 'The limits in force',
    answers: { 200: { description: 'The limits', body: LimitsView } },
    handle: async ({ identity }) => ({
      status: 200,
      body: await limitsView(reads, await reads.limits(identity.tenant), identity),
    }),
  }),
  route({
    operationId: 'setLimits',
    tag: 'limits',
    method: 'PUT',
    path: '/v2/limits',
    role: 'admin',
    summary:
      'Replace all limits, including those of the configuration, or for another tenant than the default its own; what callers have used so far still counts',
    body: SetLimits,
    answers: {
      200: { description: 'The limits are in force, and durable', body: LimitsView },
      400: 'A limit is invalid: nothing has changed',
    },
    repeatable: ({ body }) => body,
    handle: async ({ body, identity }) => {
      const { name, tenant } = identity;
      const after = await limits.set(limitSpecs(body.limits), name, tenant);
      return { status: 200, body: await limitsView(reads, after, identity) };
    },
  }),
];

async function limitsView(
  reads: Orchestrator['reads'],
  limits: readonly LimitSpec[],
  identity: Identity,
): Promise<Shape<typeof LimitsView>> {
  const keys = await reads.keyLimits(isOperator(identity) ? undefined : identity.tenant);
  const view = { limits: limitList(limits), ...(keys.length > 0 && { keys: limitList(keys) }) };
  if (isOperator(identity)) return view;
  const imposed = await reads.limits(DEFAULT_TENANT, identity.tenant);
  return { ...view, imposed: limitList(imposed) };
}
