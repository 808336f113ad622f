/** The routes of prices. New prices take effect at once; attempts that are recorded already keep theirs. */
import { priceList, priceSpecs } from '../config/prices.ts';
import { PricesView, SetPrices } from '../model/http/prices.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';
import { type Route, route } from '../wire/route.ts';

export const priceRoutes = ({ prices, reads }: Orchestrator, currency: string): readonly Route[] => [
  route({
    operationId: 'getPrices',
    tag: 'money',
    method: 'GET',
    path: '/v2/prices',
    role: 'read',
    summary: 'The prices in force, and the currency of every cost',
    answers: { 200: { description: 'The prices', body: PricesView } },
    handle: async () => ({ status: 200, body: { currency, prices: priceList(await reads.prices()) } }),
  }),
  route({
    operationId: 'setPrices',
    tag: 'money',
    method: 'PUT',
    path: '/v2/prices',
    role: 'admin',
    scope: 'global',
    summary:
      'Replace all prices, including those of the configuration; attempts that are recorded already keep theirs',
    body: SetPrices,
    answers: {
      200: { description: 'The prices are in force, and durable', body: PricesView },
      400: 'A price is invalid: nothing has changed',
    },
    repeatable: ({ body }) => body,
    handle: async ({ body, identity }) => {
      const after = await prices.set(priceSpecs(body.prices), identity.name);
      return { status: 200, body: { currency, prices: priceList(after) } };
    },
  }),
];
