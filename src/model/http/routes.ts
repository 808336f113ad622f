/** Schemas of routes, as they are written in HTTP requests and answers. */
import { Type } from 'typebox';
import { MODEL } from '../job-spec.ts';
import { ROUTE_REASONS, type RouteReason, TIME_OF_DAY, UNLISTED_REASON } from '../route.ts';
import { answerObject, instant, requestObject, type Shape } from './shape.ts';

const optional = Type.Optional;

export const MAX_STEPS = 16;

const meanings = Object.entries(ROUTE_REASONS)
  .map(([name, meaning]) => `- ${name}: ${meaning}`)
  .join('\n');

export const RouteReasonSchema = Type.Unsafe<RouteReason>({
  type: 'string',
  title: 'RouteReason',
  enum: Object.keys(ROUTE_REASONS),
  description: meanings,
});

/** The reasons that a step may list. */
const ListedReasonSchema = Type.Unsafe<RouteReason>({
  type: 'string',
  enum: Object.keys(ROUTE_REASONS).filter((reason) => reason !== UNLISTED_REASON),
});

const timeOfDay = (description: string) => Type.String({ pattern: TIME_OF_DAY, description });

const STEP = {
  model: Type.String({ pattern: MODEL, description: 'A model of the catalog, or one that a backend offers' }),
  on: Type.Array(ListedReasonSchema, {
    maxItems: Object.keys(ROUTE_REASONS).length,
    uniqueItems: true,
    description:
      'The reasons for which a job goes on to the next step; for any other it waits or fails at this one, except that it always goes on from a model that governance forbids. The last step has no next one',
  }),
  wait_ms: optional(
    Type.Integer({
      minimum: 1,
      maximum: 3.2e10,
      description: 'With "wait_ms" in `on`: how long a job waits for this step',
    }),
  ),
  time: optional(
    Type.Object(
      {
        from: timeOfDay('Such as 08:30; included'),
        to: timeOfDay('Not included; before `from` it is the next day'),
        time_zone: Type.String({ minLength: 1, maxLength: 64, description: 'Such as Europe/Berlin or UTC' }),
      },
      { additionalProperties: false, description: 'With "time" in `on`: when the step may be used' },
    ),
  ),
  weight: optional(
    Type.Integer({
      minimum: 0,
      maximum: 1e6,
      description: 'The share of jobs that begin here, among the first steps, which all have weights then',
    }),
  ),
};

export const SetRoute = requestObject({
  steps: Type.Array(Type.Object(STEP, { additionalProperties: false }), { minItems: 1, maxItems: MAX_STEPS }),
});

export const RouteView = answerObject('Route', {
  route: Type.String({ description: 'The name that jobs use as their `model`' }),
  steps: Type.Array(answerObject('RouteStep', STEP)),
  by: Type.String({ description: 'Who has set it' }),
  set_at: instant('When it was set'),
});
export type RouteView = Shape<typeof RouteView>;

export const RouteList = answerObject('RouteList', { routes: Type.Array(RouteView) });

/** Where a job is in its route. */
export const JobRoute = answerObject('JobRoute', {
  name: Type.String({ description: 'The route that the job named as its `model`' }),
  model: Type.String({ description: 'The model that it is for now, or was at its end' }),
  left: Type.Array(answerObject('RouteLeft', { model: Type.String(), why: RouteReasonSchema }), {
    description: 'The models that were passed over or left, in order, and why',
  }),
});
