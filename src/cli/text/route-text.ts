/** The output of `orchd routes`. */
import type { RouteView } from '../../model/http/routes.ts';
import { durationText } from './duration.ts';
import { oneLine } from './screen.ts';

type Step = RouteView['steps'][number];

export function routeText({ route, steps }: RouteView): string {
  const lines = steps.map((step, at) => `  ${at + 1}. ${stepText(step, at === steps.length - 1)}`);
  return [oneLine(route), ...lines].join('\n');
}

function stepText({ model, on, wait_ms, time, weight }: Step, isLast: boolean): string {
  const reasons = on.map((reason) => {
    if (reason === 'wait_ms' && wait_ms !== undefined) return `a wait of ${durationText(wait_ms)}`;
    if (reason === 'time' && time) return `not ${time.from} to ${time.to} ${time.time_zone}`;
    return reason.replaceAll('_', ' ');
  });
  const parts = [
    oneLine(model),
    weight === undefined ? '' : `weight ${weight}`,
    isLast || reasons.length === 0 ? '' : `goes on after: ${reasons.join(', ')}`,
  ];
  return parts.filter((part) => part !== '').join('; ');
}
