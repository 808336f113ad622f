/** What a server says about itself. */
import { Type } from 'typebox';
import { answerObject, orNull, type Shape } from './shape.ts';

export const Health = answerObject('Health', {
  status: Type.Union([Type.Literal('ok'), Type.Literal('degraded'), Type.Literal('failed')]),
  version: Type.String(),
  uptime_ms: Type.Integer(),
  disk_full: Type.Boolean(),
});
export type Health = Shape<typeof Health>;

export const Readiness = answerObject('Readiness', { ready: Type.Boolean() });

export const LeaderView = answerObject('Leader', {
  is_leader: Type.Boolean(),
  node: orNull(Type.String()),
  leader: orNull(Type.String()),
  address: orNull(Type.String()),
  epoch: orNull(Type.Integer()),
  main_loop_silent_ms: orNull(Type.Number()),
  lock_name: orNull(Type.String()),
});
export type LeaderView = Shape<typeof LeaderView>;

export const BackendView = answerObject('Backend', {
  name: Type.String(),
  kind: Type.String(),
  slots: Type.Integer(),
  used: Type.Integer(),
  up: Type.Boolean(),
  types: orNull(Type.Array(Type.String())),
  models: orNull(Type.Array(Type.String())),
  labels: Type.Record(Type.String(), Type.String()),
  keeps_results: Type.Boolean(),
});
export type BackendView = Shape<typeof BackendView>;

export const Capabilities = answerObject('Capabilities', {
  version: Type.String(),
  api_versions: Type.Array(Type.String()),
  store: Type.String(),
  priorities: Type.Array(Type.String()),
  queue: Type.Object({ capacity: Type.Integer(), policy: Type.String() }),
  backends: Type.Array(BackendView),
});
export type Capabilities = Shape<typeof Capabilities>;
