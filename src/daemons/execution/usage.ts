/** The tokens that an outcome reports, and their sum over several attempts. */
import type { Usage, WorkerOutcome } from '../../model/worker-wire.ts';

export function usageOf(outcome: WorkerOutcome): Usage | undefined {
  if (outcome.ok === true) return outcome.result.usage;
  return outcome.ok === 'cancelled' ? outcome.usage : outcome.error.usage;
}

export function totalUsage(one: Usage | undefined, other: Usage | undefined): Usage | undefined {
  if (!one || !other) return one ?? other;
  const total: Record<string, unknown> = { ...one };
  for (const [name, value] of Object.entries(other)) {
    const before = total[name];
    total[name] = typeof before === 'number' && typeof value === 'number' ? before + value : value;
  }
  return total as Usage;
}
