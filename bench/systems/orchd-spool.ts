/** A spool of ours for benches: its syncs are counted, and the ends of its jobs are heard from its log. */
import { SpoolAgent } from '../../src/daemons/spool/agent.ts';
import type { JobHandler } from '../../src/daemons/spool/handler.ts';
import { diskWorkerEnv } from '../../src/kit/env/real.ts';
import { createLogger } from '../../src/kit/logger.ts';
import { realHost } from '../../src/kit/process/host.ts';
import { makeSpool, type Spool, spoolAt } from '../../src/spool/spool.ts';
import { countingEnv, type DiskCounts } from '../kit/counting-disk.ts';
import { sharedNow } from '../kit/numbers.ts';

export interface BenchSpool {
  readonly spool: Spool;
  readonly counts: Readonly<DiskCounts>;
  /** Jobs that have ended here so far, each durable, and when the last one did. */
  readonly ended: { jobs: number; lastAt: number };
  agent(handler: JobHandler, slots: number): SpoolAgent;
}

const IS_END = '"to":"succeeded"';

export async function openBenchSpool(folder: string): Promise<BenchSpool> {
  const { env, counts } = countingEnv(diskWorkerEnv());
  const now = (): number => env.clock.now();
  const ended = { jobs: 0, lastAt: 0 };
  const write = (line: string): void => {
    if (!line.includes(IS_END)) return;
    ended.jobs++;
    ended.lastAt = sharedNow();
  };
  const logger = createLogger({ write, now });
  const spool = spoolAt({ env, host: realHost(now), logger, folder });
  await makeSpool(spool);
  const agent = (handler: JobHandler, slots: number): SpoolAgent =>
    new SpoolAgent({ env, spool, handler, slots, stopGraceMs: 10_000 });
  return { spool, counts, ended, agent };
}

/** A name as `orchd spool submit` makes it: jobs of this name are claimed in the order of their numbers. */
export const benchJobName = (n: number): string => `p5-20260102T030405678-${String(n).padStart(20, '0')}`;
