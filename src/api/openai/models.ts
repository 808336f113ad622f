/** The models that can be asked for. */
import { OrchdError } from '../../model/errors.ts';
import type { Orchestrator } from '../../runtime/orchestrator.ts';
import type { Route } from '../../wire/route.ts';

export interface ModelName {
  readonly id: string;
  /** In seconds since 1970. */
  readonly created: number;
  readonly owned_by: string;
}

/** Whoever knows which models there are. */
export interface ModelNames {
  list(): readonly ModelName[];
}

/** The models of the catalog, and those of backends that it does not know. */
export function modelNames(orchestrator: Orchestrator, since: number): ModelNames {
  const { fleet, catalog } = orchestrator.engine.state;
  return {
    list() {
      const names = new Map<string, number>();
      for (const { id, aliases, state, createdAt } of catalog.values()) {
        if (state !== 'active') continue;
        for (const name of [id, ...aliases]) names.set(name, Math.floor(createdAt / 1000));
      }
      for (const { info } of fleet.backends.values()) {
        if (info.types && !info.types.includes('inference')) continue;
        for (const name of info.models ?? []) if (!catalog.find(name)) names.set(name, since);
      }
      return [...names].map(([id, created]) => ({ id, created, owned_by: 'orchd' }));
    },
  };
}

/** The model of that name. */
function modelOf(models: ModelNames, name: string): ModelName {
  const found = models.list().find(({ id }) => id === name);
  if (found) return found;
  throw noSuchModel(name);
}

export const noSuchModel = (name: string): OrchdError =>
  new OrchdError('MODEL_NOT_FOUND', `there is no model "${name.slice(0, 200)}"`, { field: 'model' });

export function modelRoutes(models: ModelNames): readonly Route[] {
  const shown = ({ id, created, owned_by }: ModelName): object => ({
    id,
    object: 'model',
    created,
    owned_by,
  });
  return [
    {
      method: 'GET',
      path: '/v1/models',
      role: 'read',
      summary: 'The models that can be asked for, as OpenAI lists them',
      answers: { 200: 'The models' },
      handle: () => ({ status: 200, body: { object: 'list', data: models.list().map(shown) } }),
    },
    {
      method: 'GET',
      path: '/v1/models/:id',
      role: 'read',
      summary: 'One model, as OpenAI shows it',
      answers: { 200: 'The model', 404: 'No such model' },
      handle: ({ params }) => ({ status: 200, body: shown(modelOf(models, params['id'] ?? '')) }),
    },
  ];
}
