/** The memory of one small waiting job: after its submit, and after a restart that read it from the log. */

import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { engineOf } from '../../test/fakes/engine-of.ts';
import type { Bench, Row, Values } from '../kit/bench.ts';
import { fillWithWaiting, openBrain } from '../kit/brain.ts';
import { inChild } from '../kit/child.ts';
import { settledMemory } from '../kit/memory.ts';

interface Args {
  readonly folder: string;
  readonly jobs: number;
  readonly reopened: boolean;
}

export async function measure({ folder, jobs, reopened }: Args): Promise<Values> {
  // A brain on another folder loads everything that is loaded only once, before the first measurement.
  const warm = await openBrain(`${folder}-warm-${reopened}`);
  await fillWithWaiting(warm.orchestrator, 1000);
  await warm.orchestrator.stop();
  const before = await settledMemory();
  const { orchestrator } = await openBrain(folder);
  if (!reopened) await fillWithWaiting(orchestrator, jobs);
  const after = await settledMemory();
  const { queued } = engineOf(orchestrator).state.counts;
  if (queued !== jobs) throw new Error(`${queued} jobs wait, ${jobs} should`);
  await orchestrator.stop();
  return {
    heapBytes: (after.heapUsed - before.heapUsed) / jobs,
    externalBytes: (after.external - before.external) / jobs,
    arrayBufferBytes: (after.arrayBuffers - before.arrayBuffers) / jobs,
    rssBytes: (after.rss - before.rss) / jobs,
  };
}

export const bench: Bench = {
  name: 'heap',
  title: 'memory per small waiting job (200-byte body, generated id)',
  rounds: 'once',
  async run(options) {
    const folder = join(options.folder, 'heap');
    const jobs = options.quick ? 50_000 : 200_000;
    const rows: Row[] = [];
    for (const [name, reopened] of [
      ['heap', false],
      ['heap reopened', true],
    ] as const) {
      const args = { folder, jobs, reopened };
      const values = await inChild({ measure, url: import.meta.url }, args, ['--expose-gc']);
      rows.push({ case: name, values });
    }
    for (const path of [folder, `${folder}-warm-false`, `${folder}-warm-true`])
      rmSync(path, { recursive: true });
    return rows;
  },
};
