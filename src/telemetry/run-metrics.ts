/** Measurements of the runs of agents: their ends, their steps, and what must not happen. */
import type { Registry } from 'prom-client';
import { histogram } from './buckets.ts';
import { counter, type Sample, single } from './family.ts';
import type { RunTally } from './run-tally.ts';

export function runMetrics(tally: RunTally, registry: Registry): void {
  counter({
    name: 'orchd_runs_ended_total',
    help: 'Runs of agents that have ended, by state',
    registry,
    samples: () => Object.entries(tally.ended).map(([state, count]): Sample => [{ state }, count]),
  });
  counter({
    name: 'orchd_run_steps_total',
    help: 'Steps of runs that have ended, by kind, role of the model and outcome',
    registry,
    samples: () =>
      [...tally.steps.values()].map(
        ({ step: { event, role, outcome }, count }): Sample => [{ event, model_role: role, outcome }, count],
      ),
  });
  histogram({
    name: 'orchd_run_step_duration_ms',
    help: 'How long steps of runs took, by kind',
    registry,
    series: () => [...tally.durationsMs].map(([event, values]) => [{ event }, values] as const),
  });
  counter({
    name: 'orchd_agent_defects_total',
    help: 'Steps of runs that threw, which is a defect of orchd',
    registry,
    samples: () => single(tally.defects),
  });
}
