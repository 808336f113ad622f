/** The work that consumers ask for: how they hear of it, and what they report. */

import type { Env } from '../../kit/env/env.ts';
import { Consumers, type ConsumersParts } from './consumers.ts';
import { EventLog, type EventLogParts } from './event-log.ts';
import { Hints, type HintsParts } from './hints.ts';

export interface PulledWorkParts
  extends Omit<ConsumersParts, 'hints' | 'events' | 'random' | 'timers'>,
    Pick<EventLogParts, 'onEvent'>,
    Pick<HintsParts, 'doorbell'> {
  readonly env: Pick<Env, 'timers' | 'random'>;
}

export class PulledWork {
  readonly hints: Hints;
  readonly consumers: Consumers;

  constructor({ env, ...parts }: PulledWorkParts) {
    this.hints = new Hints({ ...parts, timers: env.timers });
    const events = new EventLog(parts);
    this.consumers = new Consumers({
      ...parts,
      random: env.random,
      timers: env.timers,
      hints: this.hints,
      events,
    });
  }
}
