/** Full cycles of orchd: submit, run by a function that does nothing, wait for the end. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { type Bench, IN_FLIGHT, type Values, windowOf } from '../kit/bench.ts';
import { inChild } from '../kit/child.ts';
import { openOrchd } from '../systems/orchd.ts';
import { type CycleShape, cycles, type DrainShape, enqueueThenDrain } from '../systems/shapes.ts';

type Args = { readonly folder: string } & ({ readonly cycle: CycleShape } | { readonly drain: DrainShape });

export async function measure({ folder, ...args }: Args): Promise<Values> {
  const shape = 'cycle' in args ? args.cycle : args.drain;
  const system = await openOrchd(folder, shape.inFlight);
  const values =
    'cycle' in args
      ? await cycles(system, folder, args.cycle)
      : await enqueueThenDrain(system, folder, args.drain);
  await system.close();
  return values;
}

export const bench: Bench = {
  name: 'cycle',
  title: 'full cycles: submit, run, wait (no-op function, slots = in flight)',
  rounds: 'every',
  async run(options) {
    const folder = join(options.folder, 'cycle');
    const shapes: [string, Args][] = IN_FLIGHT.map((inFlight) => [
      `cycle@${inFlight}`,
      { folder, cycle: { inFlight, ...windowOf(options) } },
    ]);
    shapes.push(['drain@64', { folder, drain: { inFlight: 64, jobs: options.quick ? 5000 : 20_000 } }]);
    const rows = [];
    for (const [name, args] of shapes) {
      rows.push({ case: name, values: await inChild({ measure, url: import.meta.url }, args) });
      rmSync(folder, { recursive: true });
    }
    return rows;
  },
};
