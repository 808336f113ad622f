/** The place of a job that waits, as comments of its stream. */
import { startHints } from '../../core/scheduling/lifecycle/forecast.ts';
import { jobPosition, predictStartMs } from '../../core/scheduling/predict.ts';
import type { State } from '../../core/state.ts';
import type { Cancel, Env } from '../../kit/env/env.ts';
import { every } from '../../kit/every.ts';

export interface PlaceParts {
  readonly state: State;
  readonly env: Env;
  readonly uid: string;
  readonly tell: (comment: string) => void;
}

const POLL_MS = 1000;

/** Tells it now, and again when it has changed. */
export function tellPlace({ state, env, uid, tell }: PlaceParts): Cancel {
  let told: string | undefined;
  const look = (): void => {
    const comment = placeOf(state, uid, env.clock.now());
    if (comment !== undefined && comment !== told) tell(comment);
    told = comment ?? told;
  };
  look();
  return every(env.timers, POLL_MS, look);
}

function placeOf(state: State, uid: string, now: number): string | undefined {
  const entry = state.jobs.get(uid);
  if (entry?.rec.state !== 'queued') return undefined;
  const position = jobPosition(entry);
  const predicted = predictStartMs(entry, position, now, startHints(state, entry.ask));
  const words = [
    ': queued',
    ...(position === undefined ? [] : [`position=${position}`]),
    ...(predicted === undefined ? [] : [`predicted_start_ms=${predicted}`]),
  ];
  return `${words.join(' ')}\n\n`;
}
