/** The routes of modules: producers that propose jobs. */
import { ModuleList, ModuleView } from '../model/http/modules.ts';
import { type Route, route } from '../wire/route.ts';

/** The modules of the brain that answers. */
export interface ModuleDirectory {
  views(): ModuleView[];
  /** Throws NOT_FOUND if there is no such module. */
  scanNow(name: string): ModuleView;
}

export const moduleRoutes = (modules: ModuleDirectory): readonly Route[] => [
  route({
    operationId: 'listModules',
    tag: 'modules',
    method: 'GET',
    path: '/v2/modules',
    role: 'read',
    scope: 'global',
    summary: 'The modules with their state, their last scan, and what became of their proposals',
    answers: { 200: { description: 'The modules, in the order of the configuration', body: ModuleList } },
    handle: () => ({ status: 200, body: { modules: modules.views() } }),
  }),
  route({
    operationId: 'scanModule',
    tag: 'modules',
    method: 'POST',
    path: '/v2/modules/:name/scan',
    role: 'operate',
    scope: 'global',
    summary: 'Scan a module now; a scan that runs already goes on',
    answers: {
      202: { description: 'The module as it was when the scan was ordered', body: ModuleView },
      404: 'No such module',
    },
    repeatable: () => undefined,
    handle: ({ params }) => ({ status: 202, body: modules.scanNow(params['name'] ?? '') }),
  }),
];
