/** The place of a job that waits, as comments of its stream. */

import { jobPosition, predictStartMs } from '../../core/scheduling/predict.ts';
import type { State } from '../../core/state/state.ts';
import { startHints } from '../../core/workers/forecast.ts';
import type { Cancel, Env } from '../../kit/env/env.ts';

export interface PlaceParts {
  readonly state: State;
  readonly env: Env;
  readonly uid: string;
  readonly tell: (comment: string) => void;
}

const LOOK_MS = 1000;

/** Tells it now, and again when it has changed. */
export function tellPlace({ state, env, uid, tell }: PlaceParts): Cancel {
  let told: string | undefined;
  let stop: Cancel = () => undefined;
  const look = (): void => {
    const comment = placeOf(state, uid, env.clock.now());
    if (comment !== undefined && comment !== told) tell(comment);
    told = comment ?? told;
    stop = env.timers.after(LOOK_MS, look);
  };
  look();
  return () => stop();
}

function placeOf(state: State, uid: string, now: number): string | undefined {
  const entry = state.jobs.get(uid);
  if (entry?.job.state !== 'queued') return undefined;
  const position = jobPosition(entry);
  const predicted = predictStartMs(entry, position, now, startHints(state, entry.ask));
  const words = [
    ': queued',
    ...(position === undefined ? [] : [`position=${position}`]),
    ...(predicted === undefined ? [] : [`predicted_start_ms=${predicted}`]),
  ];
  return `${words.join(' ')}\n\n`;
}
