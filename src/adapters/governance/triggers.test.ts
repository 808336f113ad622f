import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TriggerMetric } from '../../model/governance.ts';
import { type Samples, Triggers } from './triggers.ts';

const NOTHING: Samples = {
  tool_error_rate: 0,
  model_error_rate: 0,
  cost_per_minute: 0,
  violations_per_minute: 0,
  loop_delay_ms: 0,
  queued_jobs: 0,
};

const trigger = (name: string, metric: TriggerMetric, above: number, forMs: number) =>
  ({ name, metric, above, forMs, to: 'ALERT' }) as const;

test('[ADR-7] a trigger is due when its metric was above its bound for its time, without a break', () => {
  const triggers = new Triggers([trigger('errors', 'tool_error_rate', 0.5, 10_000)]);
  const look = (rate: number, at: number): number =>
    triggers.due({ ...NOTHING, tool_error_rate: rate }, at).length;
  assert.deepEqual([look(0.9, 0), look(0.9, 9999), look(0.9, 10_000)], [0, 0, 1]);
  assert.equal(look(0.5, 11_000), 0, 'not above');
  assert.deepEqual(
    [look(0.9, 12_000), look(0.1, 20_000), look(0.9, 21_000), look(0.9, 30_999)],
    [0, 0, 0, 0],
  );
  assert.equal(look(0.9, 31_000), 1);
});

test('each trigger has its own metric, bound and time', () => {
  const triggers = new Triggers([
    trigger('slow', 'loop_delay_ms', 100, 5000),
    trigger('dear', 'cost_per_minute', 1000, 0),
  ]);
  const names = (samples: Partial<Samples>, at: number): string[] =>
    triggers.due({ ...NOTHING, ...samples }, at).map(({ name }) => name);
  assert.deepEqual(names({ loop_delay_ms: 101, cost_per_minute: 1001 }, 0), ['dear']);
  assert.deepEqual(names({ loop_delay_ms: 101 }, 5000), ['slow']);
});
