/** Pauses of the event loop of a brain under a light load: alone, and beside a module that spins a core. */
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { Modules } from '../../src/adapters/modules/modules.ts';
import { moduleSettings } from '../../src/adapters/modules/settings.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { createLogger } from '../../src/kit/logger.ts';
import type { Bench, Row, Values } from '../kit/bench.ts';
import { openBrain } from '../kit/brain.ts';
import { inChild } from '../kit/child.ts';
import { watchTurns } from '../kit/longest-turn.ts';
import { inFlight, now, sleep } from '../kit/numbers.ts';

const PER_SEC = 100;

/** What runs beside the brain. */
const SOURCES = {
  nothing: undefined,
  'a module that spins': 'while (true);',
  'a module that prints garbage': `export function* scan() { for (;;) yield 'x'.repeat(1000); }`,
} as const;
type Beside = keyof typeof SOURCES;

interface Args {
  readonly folder: string;
  readonly seconds: number;
  readonly beside: Beside;
}

export async function measure({ folder, seconds, beside }: Args): Promise<Values> {
  const { orchestrator } = await openBrain(folder, [
    { name: 'no-op', slots: 64, types: { bench: () => null } },
  ]);
  const source = SOURCES[beside];
  const file = join(folder, 'module.mjs');
  if (source !== undefined) writeFileSync(file, source);
  const modules = new Modules(
    {
      env: realEnv(),
      logger: createLogger({ write: () => undefined, now: () => 0 }),
      orchestrator,
      observer: { scanned: () => undefined, handled: () => undefined },
      folder,
    },
    moduleSettings(source === undefined ? [] : [{ name: 'beside', file, timeout_sec: 600 }]),
  );
  await modules.start();
  const cycle = async (): Promise<void> => {
    const { job_id } = await orchestrator.submit({ type: 'bench', payload: null });
    await orchestrator.wait(job_id);
  };
  await inFlight(2000, 8, cycle);
  // Until the module has been loaded.
  await sleep(1000);
  (globalThis as { gc?: () => void }).gc?.();
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  const turns = watchTurns();
  const start = now();
  const cycles: Promise<void>[] = [];
  for (let at = 0; at < seconds * PER_SEC; at++) {
    const wait = start + (at * 1000) / PER_SEC - now();
    if (wait > 0) await sleep(wait);
    cycles.push(cycle());
  }
  delay.disable();
  const { maxMs, maxCpuMs } = turns();
  await Promise.all(cycles);
  await modules.stop();
  await orchestrator.stop();
  const ms = (quantile: number): number => delay.percentile(quantile) / 1e6;
  return { p50Ms: ms(50), p99Ms: ms(99), maxMs, maxCpuMs };
}

export const bench: Bench = {
  name: 'modules',
  title: 'pauses of the event loop, 100 jobs/s, alone and beside a module',
  rounds: 'every',
  async run(options) {
    const rows: Row[] = [];
    const folder = join(options.folder, 'modules');
    const seconds = options.quick ? 3 : 10;
    for (const beside of Object.keys(SOURCES) as Beside[]) {
      const args = { folder, seconds, beside };
      const values = await inChild({ measure, url: import.meta.url }, args, ['--expose-gc']);
      rows.push({ case: `beside ${beside}`, values });
      rmSync(folder, { recursive: true });
    }
    return rows;
  },
};
