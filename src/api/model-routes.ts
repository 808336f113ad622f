/** The HTTP routes of model routes: names for ordered lists of models. */
import { RouteList, RouteView, SetRoute } from '../model/http/routes.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';
import { routeSteps } from '../runtime/route-view.ts';
import { type Call, type Route, route } from '../wire/route.ts';

const idOf = ({ params }: Pick<Call, 'params'>): string => params['id'] ?? '';

const PATH = '/v2/catalog/routes/:id';
const NO_ROUTE = 'No such route';

export const modelRouteRoutes = ({ catalog, reads }: Orchestrator): readonly Route[] => [
  route({
    operationId: 'listRoutes',
    tag: 'models',
    method: 'GET',
    path: '/v2/catalog/routes',
    role: 'read',
    summary: 'The routes of the catalog',
    answers: { 200: { description: 'The routes', body: RouteList } },
    handle: async () => ({ status: 200, body: { routes: await reads.routes() } }),
  }),
  route({
    operationId: 'getRoute',
    tag: 'models',
    method: 'GET',
    path: PATH,
    role: 'read',
    summary: 'One route',
    answers: { 200: { description: 'The route', body: RouteView }, 404: NO_ROUTE },
    handle: async (call) => ({ status: 200, body: await reads.route(idOf(call)) }),
  }),
  route({
    operationId: 'setRoute',
    tag: 'models',
    method: 'PUT',
    path: PATH,
    role: 'admin',
    scope: 'global',
    summary: 'Set a route: an ordered list of models that jobs can name like a model',
    body: SetRoute,
    answers: {
      200: { description: 'The route is in force, and durable', body: RouteView },
      400: 'A step is invalid: nothing has changed',
      409: 'A model has this name',
    },
    repeatable: ({ body }) => body,
    handle: async (call) => ({
      status: 200,
      body: await catalog.setRoute(idOf(call), routeSteps(call.body), call.identity.name),
    }),
  }),
  route({
    operationId: 'deleteRoute',
    tag: 'models',
    method: 'DELETE',
    path: PATH,
    role: 'admin',
    scope: 'global',
    summary: 'Delete a route; jobs that are on their way stay at their models',
    answers: { 204: 'Deleted, and durable', 404: NO_ROUTE },
    handle: async (call) => {
      await catalog.deleteRoute(idOf(call), call.identity.name);
      return { status: 204 };
    },
  }),
];
