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
  list(): Promise<readonly ModelName[]>;
}

/** `since` stands where the catalog does not know when a model came. */
export function modelNames({ reads }: Orchestrator, since: number): ModelNames {
  const shown = ({ id, createdAt }: { id: string; createdAt: number | undefined }): ModelName => ({
    id,
    created: createdAt === undefined ? since : Math.floor(createdAt / 1000),
    owned_by: 'orchd',
  });
  return { list: async () => (await reads.modelNames()).map(shown) };
}

/** The model of that name. */
async function modelOf(models: ModelNames, name: string): Promise<ModelName> {
  const found = (await models.list()).find(({ id }) => id === name);
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
      handle: async () => ({ status: 200, body: { object: 'list', data: (await models.list()).map(shown) } }),
    },
    {
      method: 'GET',
      path: '/v1/models/:id',
      role: 'read',
      summary: 'One model, as OpenAI shows it',
      answers: { 200: 'The model', 404: 'No such model' },
      handle: async ({ params }) => ({ status: 200, body: shown(await modelOf(models, params['id'] ?? '')) }),
    },
  ];
}
