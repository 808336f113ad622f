/** The route that autoscalers ask. */
import { ScalingView } from '../model/http/scaling.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';
import { type Route, route } from '../wire/route.ts';

export const scalingRoute = ({ reads }: Orchestrator): Route =>
  route({
    operationId: 'getScaling',
    tag: 'pools',
    method: 'GET',
    path: '/v2/scaling/:pool',
    role: 'read',
    scope: 'global',
    summary: 'How much waits for a pool, how much it runs, and how many consumers or workers would be enough',
    answers: { 200: { description: 'The pool at this instant', body: ScalingView }, 404: 'No such pool' },
    handle: async ({ params }) => ({ status: 200, body: reads.scaling(params['pool'] ?? '') }),
  });
