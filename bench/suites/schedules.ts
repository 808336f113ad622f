/** What schedules cost a brain that has nothing else to do. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { ScheduleTicker } from '../../src/adapters/schedules/schedule-ticker.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { createLogger } from '../../src/kit/logger.ts';
import { DEFAULT_TENANT } from '../../src/model/records.ts';
import type { Bench, Row, Values } from '../kit/bench.ts';
import { openBrain } from '../kit/brain.ts';
import { inChild } from '../kit/child.ts';
import { watchTurns } from '../kit/longest-turn.ts';
import { inFlight, now, sleep } from '../kit/numbers.ts';

const SCHEDULES = 10_000;
const ME = { tenant: DEFAULT_TENANT, by: 'bench', source: 'api' } as const;

const pick = (n: number, below: number): number => (n * 7919) % below;

/** The expression of the n-th schedule. */
const CASES: Readonly<Record<string, ((n: number) => string) | undefined>> = {
  'no schedules': undefined,
  'yearly schedules': () => '0 0 1 1 *',
  // 2.8 ticks a second in all.
  'hourly schedules': (n) => `${pick(n, 60)} ${pick(n, 59)} * * * *`,
};

interface Args {
  readonly folder: string;
  readonly seconds: number;
  readonly kind: string;
}

export async function measure({ folder, seconds, kind }: Args): Promise<Values> {
  const { orchestrator } = await openBrain(folder);
  const cron = CASES[kind];
  let n = 0;
  const set = (): Promise<unknown> => {
    const name = `s${n++}`;
    const job = { type: 'waiting', wait_for_backend: true };
    return orchestrator.schedules.set(name, { cron: cron!(n), overlap: 'queue', job }, ME);
  };
  const before = now();
  if (cron) await inFlight(SCHEDULES, 512, set);
  const setMs = now() - before;
  const logger = createLogger({ write: () => undefined, now: () => 0 });
  const ticker = new ScheduleTicker({ env: realEnv(), logger, orchestrator });
  const turns = watchTurns();
  await ticker.start();
  const { maxCpuMs } = turns();
  await sleep(2000);
  (globalThis as { gc?: () => void }).gc?.();
  const from = { at: now(), cpu: process.cpuUsage() };
  await sleep(seconds * 1000);
  const { user, system } = process.cpuUsage(from.cpu);
  const corePercent = (user + system) / 10 / (now() - from.at);
  const jobs = (await orchestrator.list({ limit: 1000 })).jobs.length;
  await ticker.stop();
  await orchestrator.stop();
  return { corePercent, jobs, setMs, startTurnMs: maxCpuMs };
}

export const bench: Bench = {
  name: 'schedules',
  title: 'CPU of an idle brain with 10,000 schedules, in percent of a core',
  rounds: 'every',
  async run(options) {
    const rows: Row[] = [];
    const folder = join(options.folder, 'schedules');
    const seconds = options.quick ? 10 : 20;
    for (const kind of Object.keys(CASES)) {
      const args = { folder, seconds, kind };
      const values = await inChild({ measure, url: import.meta.url }, args, ['--expose-gc']);
      rows.push({ case: kind, values });
      rmSync(folder, { recursive: true });
    }
    return rows;
  },
};
