/** Full cycles of a brain with some settings beside those of one without, by turns in one process. */
import { join } from 'node:path';
import type { Values } from '../kit/bench.ts';
import { openOrchd } from './orchd.ts';
import { type CycleShape, cycles } from './shapes.ts';
import type { System } from './system.ts';

/** Windows of each brain, by turns: the machine's own speed changes by a third from one second to the next. */
const TURNS = 8;

export interface BesideArgs extends CycleShape {
  readonly folder: string;
}

/** The mean of each value over all turns; `config` is YAML. */
export async function besidePlain(
  { folder, ...shape }: BesideArgs,
  config: string,
  open: (folder: string, slots: number, options?: { config?: string }) => Promise<System> = openOrchd,
): Promise<{ plain: Values; other: Values }> {
  const plain = await open(join(folder, 'plain'), shape.inFlight);
  const other = await open(join(folder, 'other'), shape.inFlight, { config });
  const turns = { plain: [] as Values[], other: [] as Values[] };
  for (let turn = 0; turn < TURNS; turn++) {
    turns.plain.push(await cycles(plain, folder, shape));
    turns.other.push(await cycles(other, folder, shape));
  }
  await Promise.all([plain.close(), other.close()]);
  return { plain: means(turns.plain), other: means(turns.other) };
}

function means(turns: readonly Values[]): Values {
  const names = Object.keys(turns[0] ?? {});
  const mean = (name: string): number =>
    turns.reduce((sum, values) => sum + Number(values[name] ?? 0), 0) / turns.length;
  return Object.fromEntries(names.map((name) => [name, mean(name)]));
}
