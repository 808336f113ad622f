/** Measurements of what came out of the jobs: how they ended, and the tokens of their attempts. */
import type { Registry } from 'prom-client';
import { counter, type Sample, single } from './family.ts';
import type { Tally } from './tally.ts';

export function endMetrics(tally: Tally, registry: Registry): void {
  counter({
    name: 'orchd_jobs_ended_total',
    help: 'Jobs that have ended, by state',
    registry,
    samples: () => Object.entries(tally.ended).map(([state, count]): Sample => [{ state }, count]),
  });
  counter({
    name: 'orchd_jobs_dead_total',
    help: 'Jobs that have ended dead, by reason',
    registry,
    samples: () => Object.entries(tally.dead).map(([reason, count]): Sample => [{ reason }, count]),
  });
  counter({
    name: 'tasks_dropped_total',
    help: 'Admitted jobs that were dropped to make room',
    registry,
    samples: () => single(tally.dead.dropped),
  });
  counter({
    name: 'orchd_token_events_total',
    help: 'Token events that running attempts have sent, to be relayed to whoever follows them',
    registry,
    samples: () => single(tally.tokenEvents),
  });
  counter({
    name: 'orchd_model_tokens_total',
    help: 'Tokens of closed attempts, as their backends report them, by model and direction',
    registry,
    samples: () => modelTokens(tally),
  });
}

function* modelTokens({ tokens }: Tally): Generator<Sample> {
  for (const [model_ref, { prompt, completion }] of tokens) {
    yield [{ model_ref, direction: 'in' }, prompt];
    yield [{ model_ref, direction: 'out' }, completion];
  }
}
