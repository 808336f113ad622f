/** The waiting and running times of jobs, from their records. */
import type { JobRecord } from '../model/records.ts';
import { isTerminal } from '../model/states.ts';
import type { ObservedJob } from '../runtime/observer.ts';

/** The time a claimed job waited since it was ready to start: since its submit, its last try or its redrive. */
export function schedulingMs(entry: ObservedJob, job: JobRecord, now: number): number {
  const ready = Math.max(entry.readyAt, job.redrivenAt ?? 0);
  if (job.attempt === 1) return Math.max(0, now - ready);
  const former = entry.past?.findLast(({ n }) => n < job.attempt)?.endedAt ?? 0;
  return Math.max(0, now - Math.max(ready, former));
}

/** The duration of the last try; undefined if the job ended while it waited. */
export function executionMs(entry: ObservedJob, job: JobRecord): number | undefined {
  if (job.backend === undefined || !(isTerminal(job.state) || job.state === 'failed')) return undefined;
  const attempt = entry.open?.n === job.attempt ? entry.open : entry.past?.findLast(isOf(job.attempt));
  const from = attempt?.acceptedAt ?? job.startedAt;
  const to = attempt?.endedAt ?? job.endedAt;
  return from === undefined || to === undefined ? undefined : to - from;
}

const isOf =
  (attempt: number) =>
  ({ n }: { readonly n: number }): boolean =>
    n === attempt;
