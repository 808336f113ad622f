/** The routes of the model catalog: register, read, retire and verify models. */
import { OrchdError } from '../model/errors.ts';
import {
  ModelList,
  ModelView,
  RegisterModel,
  SetModelState,
  VerificationView,
} from '../model/http/catalog.ts';
import type { ModelRecord } from '../model/records.ts';
import { registrationOf } from '../runtime/model-registration.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';
import { type Call, type Route, route } from '../wire/route.ts';
import { ModelVerification, type VerificationOptions } from './verification.ts';

const idOf = ({ params }: Pick<Call, 'params'>): string => params['id'] ?? '';

const NO_MODEL = 'No such model';

export const catalogRoutes = (
  orchestrator: Orchestrator,
  options: Omit<VerificationOptions, 'managers'>,
): readonly Route[] => [
  registerRoute(orchestrator),
  ...readRoutes(orchestrator),
  stateRoute(orchestrator),
  verifyRoute(orchestrator, { ...options, managers: orchestrator.managers }),
];

const registerRoute = ({ catalog, managers }: Orchestrator): Route =>
  route({
    operationId: 'registerModel',
    tag: 'models',
    method: 'POST',
    path: '/v2/catalog/models',
    role: 'admin',
    scope: 'global',
    summary: 'Register a model, or change its entry',
    body: RegisterModel,
    answers: {
      200: { description: 'Registered, and durable', body: ModelView },
      404: 'No pool has its file',
      409: 'A name is taken',
    },
    repeatable: ({ body }) => body,
    handle: async ({ body }) => ({
      status: 200,
      body: await catalog.register(await registrationOf(body, managers)),
    }),
  });

const readRoutes = ({ reads }: Orchestrator): readonly Route[] => [
  route({
    operationId: 'listModels',
    tag: 'models',
    method: 'GET',
    path: '/v2/catalog/models',
    role: 'read',
    summary: 'The models of the catalog',
    answers: { 200: { description: 'The models', body: ModelList } },
    handle: async () => ({ status: 200, body: { models: await reads.models() } }),
  }),
  route({
    operationId: 'getModel',
    tag: 'models',
    method: 'GET',
    path: '/v2/catalog/models/:id',
    role: 'read',
    summary: 'One model, by its id, an alias or its reference',
    answers: { 200: { description: 'The model', body: ModelView }, 404: NO_MODEL },
    handle: async (call) => ({ status: 200, body: await reads.model(idOf(call)) }),
  }),
];

const stateRoute = ({ catalog }: Orchestrator): Route =>
  route({
    operationId: 'setModelState',
    tag: 'models',
    method: 'POST',
    path: '/v2/catalog/models/:id/state',
    role: 'admin',
    scope: 'global',
    summary: 'Retire a model, or make it active again',
    body: SetModelState,
    answers: { 200: { description: 'The model', body: ModelView }, 404: NO_MODEL },
    repeatable: ({ body }) => body,
    handle: async (call) => {
      const state = call.body.state.toLowerCase() as ModelRecord['state'];
      return { status: 200, body: await catalog.setState(idOf(call), state) };
    },
  });

const verifyRoute = ({ catalog, reads }: Orchestrator, options: VerificationOptions): Route =>
  route({
    operationId: 'verifyModel',
    tag: 'models',
    method: 'POST',
    path: '/v2/catalog/models/:id/verify',
    role: 'operate',
    scope: 'global',
    summary: 'Verify the checksum and signature of a model file, on the pool that has it',
    answers: {
      200: {
        description: 'The verdict',
        body: VerificationView,
        events:
          'With `Accept: text/event-stream`: `progress {bytes, total}`, then `end` with the verdict, or `error`',
      },
      404: NO_MODEL,
    },
    isProxied: true,
    handle: async (call) => {
      const verification = new ModelVerification(catalog, options, await modelOf(reads, idOf(call)));
      if (!call.headers.accept?.includes('text/event-stream'))
        return { status: 200, body: await verification.run(() => undefined) };
      return verification.stream();
    },
  });

async function modelOf(reads: Orchestrator['reads'], id: string): Promise<ModelRecord> {
  const model = await reads.modelRecord(id);
  if (!model) throw new OrchdError('MODEL_NOT_FOUND', `there is no model "${id.slice(0, 200)}"`);
  return model;
}
