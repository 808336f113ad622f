/** The longest stall of the event loop under a light load, with and without a large checkpoint. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { Bench, Row, Values } from '../kit/bench.ts';
import { fillWithWaiting, openBrain } from '../kit/brain.ts';
import { inChild } from '../kit/child.ts';
import { folderBytes } from '../kit/disk.ts';
import { inFlight, now, sleep } from '../kit/numbers.ts';

/** About 100 MB of state. */
const JOBS = 65_000;
const BODY_BYTES = 1500;
const PER_SEC = 200;

interface Args {
  readonly folder: string;
  readonly seconds: number;
  readonly withCheckpoint: boolean;
}

export async function measure({ folder, seconds, withCheckpoint }: Args): Promise<Values> {
  const { orchestrator } = await openBrain(folder, [
    { name: 'no-op', slots: 64, types: { bench: () => null } },
  ]);
  await fillWithWaiting(orchestrator, JOBS, 'x'.repeat(BODY_BYTES));
  const cycle = async (): Promise<void> => {
    const { job_id } = await orchestrator.submit({ type: 'bench', payload: null });
    await orchestrator.wait(job_id);
  };
  await inFlight(2000, 8, cycle);
  (globalThis as { gc?: () => void }).gc?.();
  await sleep(200);
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  const start = now();
  let checkpointMs: number | undefined;
  const checkpoint = withCheckpoint
    ? orchestrator.checkpoint().then(() => {
        checkpointMs = now() - start;
      })
    : Promise.resolve();
  const cycles: Promise<void>[] = [];
  // The window is extended until the checkpoint has ended, which may take long on a busy machine.
  const isOpen = (at: number): boolean =>
    at < seconds * PER_SEC || (withCheckpoint && checkpointMs === undefined);
  for (let at = 0; isOpen(at); at++) {
    const wait = start + (at * 1000) / PER_SEC - now();
    if (wait > 0) await sleep(wait);
    cycles.push(cycle());
  }
  delay.disable();
  const windowSec = (now() - start) / 1000;
  await Promise.all([checkpoint, ...cycles]);
  const stateMib = withCheckpoint ? folderBytes(join(folder, 'checkpoints')) / 2 ** 20 : undefined;
  await orchestrator.stop();
  return { maxMs: delay.max / 1e6, p99Ms: delay.percentile(99) / 1e6, windowSec, checkpointMs, stateMib };
}

export const bench: Bench = {
  name: 'stall',
  title: 'longest stall of the event loop, 200 jobs/s, with and without a checkpoint of 100 MB',
  rounds: 'once',
  async run(options) {
    const rows: Row[] = [];
    const folder = join(options.folder, 'stall');
    const seconds = options.quick ? 3 : 6;
    for (let times = 0; times < (options.quick ? 1 : 3); times++) {
      for (const withCheckpoint of [false, true]) {
        const args = { folder, seconds, withCheckpoint };
        const values = await inChild({ measure, url: import.meta.url }, args, ['--expose-gc']);
        rows.push({ case: withCheckpoint ? 'with checkpoint' : 'without checkpoint', values });
        rmSync(folder, { recursive: true });
      }
    }
    return rows;
  },
};
