/** Memory with large prompts, which must stay on disk: 2,000 of them, or 200,000 (10 GB) when selected by --only. */

import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { engineOf } from '../../test/fakes/engine-of.ts';
import type { Bench, Values } from '../kit/bench.ts';
import { fillWithWaiting, openBrain } from '../kit/brain.ts';
import { inChild } from '../kit/child.ts';
import { folderBytes } from '../kit/disk.ts';
import { now } from '../kit/numbers.ts';

const PROMPT = 'x'.repeat(50 * 1024);

interface Args {
  readonly folder: string;
  readonly jobs: number;
  readonly fill: boolean;
}

export async function measure({ folder, jobs, fill }: Args): Promise<Values> {
  const start = now();
  const { orchestrator } = await openBrain(folder);
  const openMs = now() - start;
  const fillStart = now();
  if (fill) await fillWithWaiting(orchestrator, jobs, PROMPT);
  const seconds = (now() - fillStart) / 1000;
  const { queued } = engineOf(orchestrator).state.counts;
  if (queued !== jobs) throw new Error(`${queued} jobs wait, ${jobs} should`);
  const { rss, heapUsed } = process.memoryUsage();
  await orchestrator.stop();
  const memory = { rssMib: rss / 2 ** 20, heapMib: heapUsed / 2 ** 20 };
  return fill ? { jobs, perSec: jobs / seconds, ...memory } : { jobs, openMs, ...memory };
}

export const bench: Bench = {
  name: 'big',
  title: 'prompts of 50 KiB',
  rounds: 'once',
  async run({ folder: parent, quick, named }) {
    const folder = join(parent, 'big');
    const jobs = named && !quick ? 200_000 : 2000;
    const filled = await inChild({ measure, url: import.meta.url }, { folder, jobs, fill: true });
    const folderMib = folderBytes(folder) / 2 ** 20;
    const opened = await inChild({ measure, url: import.meta.url }, { folder, jobs, fill: false });
    rmSync(folder, { recursive: true });
    return [
      { case: 'big submit', values: { ...filled, folderMib } },
      { case: 'big reopen', values: opened },
    ];
  },
};
