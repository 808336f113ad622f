/** The time a new process takes to open a folder with 100,000 live jobs: from the log alone, and from a checkpoint. */

import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { engineOf } from '../../test/fakes/engine-of.ts';
import type { Bench, Options, Row, Values } from '../kit/bench.ts';
import { fillWithWaiting, openBrain } from '../kit/brain.ts';
import { inChild } from '../kit/child.ts';
import { folderBytes } from '../kit/disk.ts';
import { median, now } from '../kit/numbers.ts';

const JOBS = 100_000;

interface Args {
  readonly folder: string;
  readonly step: 'fill' | 'open' | 'checkpoint';
}

export async function measure({ folder, step }: Args): Promise<Values> {
  const start = now();
  const { orchestrator } = await openBrain(folder);
  const openMs = now() - start;
  if (step === 'fill') await fillWithWaiting(orchestrator, JOBS);
  const { queued } = engineOf(orchestrator).state.counts;
  if (queued !== JOBS) throw new Error(`${queued} jobs are back, ${JOBS} should be`);
  const rssMib = process.memoryUsage().rss / 2 ** 20;
  const checkpointStart = now();
  if (step === 'checkpoint') await orchestrator.checkpoint();
  const checkpointMs = now() - checkpointStart;
  await orchestrator.stop();
  return { openMs, rssMib, ...(step === 'checkpoint' && { checkpointMs }) };
}

async function openings(folder: string, name: string, { quick }: Options): Promise<Row> {
  const times: number[] = [];
  let last: Values = {};
  for (let round = 0; round < (quick ? 1 : 3); round++) {
    last = await inChild({ measure, url: import.meta.url }, { folder, step: 'open' });
    times.push(Number(last['openMs']));
  }
  const values = { openMs: median(times), worstMs: Math.max(...times), rssMib: last['rssMib'] };
  return { case: name, values: { ...values, folderMib: folderBytes(folder) / 2 ** 20 } };
}

export const bench: Bench = {
  name: 'restart',
  title: 'opening a folder with 100,000 live jobs in a fresh process',
  rounds: 'once',
  async run(options) {
    const folder = join(options.folder, 'restart');
    const step = (args: Args): Promise<Values> => inChild({ measure, url: import.meta.url }, args);
    await step({ folder, step: 'fill' });
    const fromLog = await openings(folder, 'restart from log', options);
    const { checkpointMs } = await step({ folder, step: 'checkpoint' });
    const fromCheckpoint = await openings(folder, 'restart from checkpoint', options);
    rmSync(folder, { recursive: true });
    return [fromLog, { ...fromCheckpoint, values: { ...fromCheckpoint.values, checkpointMs } }];
  },
};
