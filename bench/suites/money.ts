/** What budgets cost: full cycles with prices and three hard budgets, and the same without them. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { type Bench, type Row, type Values, windowOf } from '../kit/bench.ts';
import { inChild } from '../kit/child.ts';
import { type BesideArgs, besidePlain } from '../systems/beside.ts';

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

export const measure = (args: BesideArgs): Promise<{ plain: Values; other: Values }> =>
  besidePlain(args, CONFIG);

export const bench: Bench = {
  name: 'money',
  title: 'full cycles with prices and three hard budgets, and without (64 in flight)',
  rounds: 'every',
  async run(options) {
    const folder = join(options.folder, 'money');
    const args = { folder, inFlight: 64, ...windowOf(options) };
    const { plain, other } = await inChild({ measure, url: import.meta.url }, args);
    rmSync(folder, { recursive: true });
    const rows: Row[] = [
      { case: 'cycle@64, no budgets', values: plain },
      { case: 'cycle@64, budgets', values: other },
    ];
    return rows;
  },
};
