/** Reads of gates, for people and metrics. They change nothing: a window that is over is left for whoever starts jobs. */
import type { Gate } from './gate.ts';

/** How much of the cost budget of a scope is used. */
export interface BudgetUse {
  readonly scope: string;
  readonly isHard: boolean;
  readonly budget: number;
  readonly settled: number;
  readonly reserved: number;
}

/** Undefined without a cost budget. */
export function budgetUse(gate: Gate, now: number): BudgetUse | undefined {
  const { name, limit, isHard, reserved, rollsAt } = gate;
  if (limit.costBudget === undefined) return undefined;
  const settled = now < rollsAt ? gate.settled : 0;
  return { scope: name, isHard, budget: limit.costBudget, settled, reserved };
}

export interface GateUse {
  readonly scope: string;
  readonly what: 'running' | 'cost';
  readonly used: number;
  readonly of: number;
}

/** What of a gate is limited, and used to at least this share. */
export function* nearUses(gate: Gate, share: number, now: number): Generator<GateUse> {
  const { name: scope, limit, running } = gate;
  if (limit.running !== undefined && running > 0 && running >= share * limit.running)
    yield { scope, what: 'running', used: running, of: limit.running };
  const budget = budgetUse(gate, now);
  const used = budget ? budget.settled + budget.reserved : 0;
  if (budget && used > 0 && used >= share * budget.budget)
    yield { scope, what: 'cost', used, of: budget.budget };
}
