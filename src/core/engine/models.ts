/** Events of the model catalog: registration, state, verification, routes. */
import type { ModelRecord, ModelRegistration, Verification } from '../../model/records.ts';
import type { RouteStep } from '../../model/route.ts';
import { noteVerified, register, setModelState } from '../workers/catalog.ts';
import { dropRoute, setRoute } from '../workers/routes.ts';
import { type Handlers, mayRefuse, needsDiskSpace } from './handler.ts';

export type ModelEvent =
  | { readonly type: 'register'; readonly model: ModelRegistration }
  | { readonly type: 'model-state'; readonly id: string; readonly state: ModelRecord['state'] }
  | { readonly type: 'verified'; readonly id: string; readonly verified: Verification }
  | {
      readonly type: 'route';
      readonly id: string;
      readonly steps: readonly RouteStep[];
      readonly by: string;
    }
  | { readonly type: 'drop-route'; readonly id: string; readonly by: string };

export const models = {
  register: needsDiskSpace((turn, { model }) => register(turn, model)),
  'model-state': needsDiskSpace((turn, { id, state }) => setModelState(turn, id, state)),
  verified: mayRefuse((turn, { id, verified }) => noteVerified(turn, id, verified)),
  route: needsDiskSpace((turn, { id, steps, by }) => setRoute(turn, id, steps, by)),
  'drop-route': needsDiskSpace((turn, { id, by }) => dropRoute(turn, id, by)),
} satisfies Handlers<ModelEvent>;
