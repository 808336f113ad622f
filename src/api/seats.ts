/** The route that ends the pause of a seat whose provider has billed more than its bound. */
import { ResumedSeat } from '../model/http/meta.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';
import { type Route, route } from '../wire/route.ts';

export const seatRoutes = ({ prices }: Orchestrator): readonly Route[] => [
  route({
    operationId: 'resumeSeat',
    tag: 'money',
    method: 'POST',
    path: '/v2/seats/:name/resume',
    role: 'operate',
    scope: 'global',
    summary: 'Give jobs again to a seat that was paused because its provider billed more than its bound',
    answers: {
      200: { description: 'The seat is not paused, and that is durable', body: ResumedSeat },
      404: 'No such seat',
    },
    repeatable: () => undefined,
    handle: async ({ params, identity }) => {
      const seat = params['name'] ?? '';
      return { status: 200, body: { seat, was_paused: await prices.resumeSeat(seat, identity.name) } };
    },
  }),
];
