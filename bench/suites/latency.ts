/** The time from submit to the start of the handler at 100 jobs a second, which is an almost idle system. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Bench, Values } from '../kit/bench.ts';
import { inChild } from '../kit/child.ts';
import { openOrchd } from '../systems/orchd.ts';
import { type PaceShape, paced } from '../systems/shapes.ts';

interface Args {
  readonly folder: string;
  readonly pace: PaceShape;
}

const SLOTS = 64;

export async function measure({ folder, pace }: Args): Promise<Values> {
  const system = await openOrchd(folder, SLOTS);
  const values = await paced(system, folder, pace);
  await system.close();
  return values;
}

export const bench: Bench = {
  name: 'latency',
  title: 'submit to start at 100 jobs/s',
  rounds: 'once',
  async run(options) {
    const folder = join(options.folder, 'latency');
    const args = { folder, pace: { perSec: 100, seconds: options.quick ? 2 : 8 } };
    const values = await inChild({ measure, url: import.meta.url }, args);
    rmSync(folder, { recursive: true });
    return [{ case: 'latency@100/s', values }];
  },
};
