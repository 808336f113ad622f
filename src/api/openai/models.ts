/** The routes that list models in OpenAI's format. */
import type { Agents } from '../../agents/agents.ts';
import { OrchdError } from '../../model/errors.ts';
import { OpenAiModel, OpenAiModelList } from '../../model/http/openai.ts';
import { isListed } from '../../model/model-list.ts';
import type { Orchestrator } from '../../runtime/orchestrator.ts';
import { type Route, route } from '../../wire/route.ts';
import type { Identity } from '../../wire/tokens.ts';
import { agentModels } from './agent-models.ts';

export interface ListedModel {
  readonly id: string;
  /** Unix time in seconds. */
  readonly created: number;
  readonly owned_by: string;
}

export interface ListedModels {
  list(): Promise<readonly ListedModel[]>;
}

/**
 * `since` (Unix seconds) is the `created` time of a model that a backend offers but the catalog does not contain, and of
 * agents.
 */
export function listedModels({ reads }: Orchestrator, agents: Agents, since: number): ListedModels {
  const shown = ({ id, createdAt }: { id: string; createdAt: number | undefined }): ListedModel => ({
    id,
    created: createdAt === undefined ? since : Math.floor(createdAt / 1000),
    owned_by: 'orchd',
  });
  const ofAgents = agentModels(agents);
  return {
    async list() {
      const names = (await reads.modelNames()).filter(({ id }) => !ofAgents.includes(id));
      return [...names, ...ofAgents.map((id) => ({ id, createdAt: undefined }))].map(shown);
    },
  };
}

/** The models that a caller may use. */
async function modelsFor(models: ListedModels, { models: allowed }: Identity): Promise<ListedModel[]> {
  return (await models.list()).filter(({ id }) => isListed(allowed, id));
}

async function modelOf(models: ListedModels, name: string, caller: Identity): Promise<ListedModel> {
  const found = (await modelsFor(models, caller)).find(({ id }) => id === name);
  if (found) return found;
  throw noSuchModel(name);
}

export const noSuchModel = (name: string): OrchdError =>
  new OrchdError('MODEL_NOT_FOUND', `there is no model "${name.slice(0, 200)}"`, { field: 'model' });

export const modelRoutes = (models: ListedModels): readonly Route[] => [
  route({
    operationId: 'listOpenAiModels',
    tag: 'openai',
    method: 'GET',
    path: '/v1/models',
    role: 'read',
    summary: 'The available models, as OpenAI lists them',
    ignoresQuery: true,
    answers: { 200: { description: 'The models', body: OpenAiModelList } },
    handle: async ({ identity }) => ({
      status: 200,
      body: { object: 'list', data: (await modelsFor(models, identity)).map(modelView) },
    }),
  }),
  route({
    operationId: 'getOpenAiModel',
    tag: 'openai',
    method: 'GET',
    path: '/v1/models/:id',
    role: 'read',
    summary: 'One model, as OpenAI shows it',
    ignoresQuery: true,
    answers: { 200: { description: 'The model', body: OpenAiModel }, 404: 'No such model' },
    handle: async ({ params, identity }) => ({
      status: 200,
      body: modelView(await modelOf(models, params['id'] ?? '', identity)),
    }),
  }),
];

const modelView = ({ id, created, owned_by }: ListedModel): OpenAiModel => ({
  id,
  object: 'model',
  created,
  owned_by,
});
