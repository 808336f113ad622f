/** The limits of callers, which hold from the moment they are set. */
import { Type } from 'typebox';
import { LimitsSchema, limitList, limitSpecs } from '../config/limits.ts';
import { checker } from '../kit/check.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';
import type { Route } from '../wire/route.ts';

const SetLimits = Type.Object({ limits: LimitsSchema }, { additionalProperties: false });
const check = checker(SetLimits);

export function limitRoutes({ limits, reads }: Orchestrator): readonly Route[] {
  return [
    {
      method: 'GET',
      path: '/v2/limits',
      role: 'read',
      summary: 'The limits in force',
      answers: { 200: 'The limits' },
      handle: async () => ({ status: 200, body: { limits: limitList(await reads.limits()) } }),
    },
    {
      method: 'PUT',
      path: '/v2/limits',
      role: 'admin',
      summary: 'Replace the limits, those of the configuration too; what callers have used counts on',
      body: SetLimits,
      answers: { 200: 'They hold, and are durable', 400: 'One makes no sense: nothing has changed' },
      repeatable: ({ body }) => body,
      handle: async ({ body, identity }) => ({
        status: 200,
        body: { limits: limitList(await limits.set(limitSpecs(check(body).limits), identity.name)) },
      }),
    },
  ];
}
