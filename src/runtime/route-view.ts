/** Routes as people write and see them, and the steps that the brain keeps of them. */
import type { RouteView, SetRoute } from '../model/http/routes.ts';
import type { Shape } from '../model/http/shape.ts';
import type { RouteRecord, RouteStep } from '../model/route.ts';

export const routeView = ({ id, steps, by, at }: RouteRecord): RouteView => ({
  route: id,
  steps: steps.map(({ model, on, waitMs, time, weight }) => ({
    model,
    on: [...on],
    ...(waitMs !== undefined && { wait_ms: waitMs }),
    ...(time && { time: { from: time.from, to: time.to, time_zone: time.timeZone } }),
    ...(weight !== undefined && { weight }),
  })),
  by,
  set_at: at,
});

export const routeSteps = ({ steps }: Shape<typeof SetRoute>): RouteStep[] =>
  steps.map(({ model, on, wait_ms, time, weight }) => ({
    model,
    on,
    ...(wait_ms !== undefined && { waitMs: wait_ms }),
    ...(time && { time: { from: time.from, to: time.to, timeZone: time.time_zone } }),
    ...(weight !== undefined && { weight }),
  }));
