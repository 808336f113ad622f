/** What budgets cost: full cycles with prices and three hard budgets, and the same without them. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { type Bench, type Row, type Values, windowOf } from '../kit/bench.ts';
import { inChild } from '../kit/child.ts';
import { openOrchd } from '../systems/orchd.ts';
import { type CycleShape, cycles } from '../systems/shapes.ts';

/** Budgets that no run uses up: what is measured is the counting. */
const BUDGET = 9_000_000_000_000_000;
const CONFIG = `
prices:
  - {model: "*", request: 10}
limits:
  - {scope: global, cost_budget: ${BUDGET}, window: month, hard: true}
  - {scope: "tenant:*", cost_budget: ${BUDGET}, window: day, hard: true}
  - {scope: "agent:*", cost_budget: ${BUDGET}, window: day, hard: true}
`;

interface Args extends CycleShape {
  readonly folder: string;
  readonly isPriced: boolean;
}

export async function measure({ folder, isPriced, ...shape }: Args): Promise<Values> {
  const system = await openOrchd(folder, shape.inFlight, isPriced ? { config: CONFIG } : {});
  const values = await cycles(system, folder, shape);
  await system.close();
  return values;
}

export const bench: Bench = {
  name: 'money',
  title: 'full cycles with prices and three hard budgets, and without (64 in flight)',
  rounds: 'every',
  async run(options) {
    const folder = join(options.folder, 'money');
    const rows: Row[] = [];
    for (const isPriced of [false, true]) {
      const args = { folder, isPriced, inFlight: 64, ...windowOf(options) };
      const values = await inChild({ measure, url: import.meta.url }, args);
      rows.push({ case: isPriced ? 'cycle@64, budgets' : 'cycle@64, no budgets', values });
      rmSync(folder, { recursive: true });
    }
    return rows;
  },
};
