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

/** Windows of each brain, by turns: the machine's own speed changes by a third from one second to the next. */
const TURNS = 8;

interface Args extends CycleShape {
  readonly folder: string;
}

/** Both brains are in one process, and measured by turns. Returns the mean of each value over all turns. */
export async function measure({ folder, ...shape }: Args): Promise<{ plain: Values; priced: Values }> {
  const plain = await openOrchd(join(folder, 'plain'), shape.inFlight);
  const priced = await openOrchd(join(folder, 'priced'), shape.inFlight, { config: CONFIG });
  const turns = { plain: [] as Values[], priced: [] as Values[] };
  for (let turn = 0; turn < TURNS; turn++) {
    turns.plain.push(await cycles(plain, folder, shape));
    turns.priced.push(await cycles(priced, folder, shape));
  }
  await Promise.all([plain.close(), priced.close()]);
  return { plain: means(turns.plain), priced: means(turns.priced) };
}

function means(turns: readonly Values[]): Values {
  const names = Object.keys(turns[0] ?? {});
  const mean = (name: string): number =>
    turns.reduce((sum, values) => sum + Number(values[name] ?? 0), 0) / turns.length;
  return Object.fromEntries(names.map((name) => [name, mean(name)]));
}

export const bench: Bench = {
  name: 'money',
  title: 'full cycles with prices and three hard budgets, and without (64 in flight)',
  rounds: 'every',
  async run(options) {
    const folder = join(options.folder, 'money');
    const args = { folder, inFlight: 64, ...windowOf(options) };
    const { plain, priced } = await inChild({ measure, url: import.meta.url }, args);
    rmSync(folder, { recursive: true });
    const rows: Row[] = [
      { case: 'cycle@64, no budgets', values: plain },
      { case: 'cycle@64, budgets', values: priced },
    ];
    return rows;
  },
};
