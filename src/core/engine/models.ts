/** Events of the model catalog: registration, state, verification. */
import type { ModelRecord, ModelRegistration, Verification } from '../../model/records.ts';
import { noteVerified, register, setModelState } from '../workers/catalog.ts';
import { type Handlers, mayRefuse, needsDiskSpace } from './handler.ts';

export type ModelEvent =
  | { readonly type: 'register'; readonly model: ModelRegistration }
  | { readonly type: 'model-state'; readonly id: string; readonly state: ModelRecord['state'] }
  | { readonly type: 'verified'; readonly id: string; readonly verified: Verification };

export const models = {
  register: needsDiskSpace((turn, { model }) => register(turn, model)),
  'model-state': needsDiskSpace((turn, { id, state }) => setModelState(turn, id, state)),
  verified: mayRefuse((turn, { id, verified }) => noteVerified(turn, id, verified)),
} satisfies Handlers<ModelEvent>;
