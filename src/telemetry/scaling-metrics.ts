/** The measurements that autoscalers of the first users of these tables know: pools, streams, leases, devices, latency. */
import type { Registry } from 'prom-client';
import { jobsPlace } from '../backends/stream/names.ts';
import type { AskRecord, JobRecord } from '../model/records.ts';
import type { Figures } from '../runtime/figures.ts';
import { Buckets, histogram, LATENCY_SEC } from './buckets.ts';
import { gauge, type Sample, single } from './family.ts';

/** Types counted separately; further ones share one count, since a backend may take any type that a caller names. */
const MAX_TYPES = 100;
const OTHER_TYPES = 'other';

/** From the submit to the end of jobs that ran, by type. */
export class LatencyTally {
  readonly byType = new Map<string, Buckets>();

  ended({ createdAt, spec: { type } }: AskRecord, { endedAt, backend, redrivenAt }: JobRecord): void {
    if (endedAt === undefined || backend === undefined) return;
    const name = this.byType.size < MAX_TYPES || this.byType.has(type) ? type : OTHER_TYPES;
    const buckets = this.byType.get(name) ?? new Buckets(LATENCY_SEC);
    this.byType.set(name, buckets);
    buckets.note(Math.max(0, endedAt - (redrivenAt ?? createdAt)) / 1000);
  }
}

export function scalingMetrics(figures: () => Figures, latency: LatencyTally, registry: Registry): void {
  gauge({
    name: 'gpu_orchestrator_job_queue_depth',
    help: 'Jobs that wait for the consumers of a pool and that none of them has claimed, by the stream of the pool',
    registry,
    samples: () => figures().streams.map(({ pool, jobs }): Sample => [{ stream: jobsPlace(pool).key }, jobs]),
  });
  gauge({
    name: 'gpu_orchestrator_worker_pools_total',
    help: 'Worker pools that are not over',
    registry,
    samples: () => single(figures().workerPools.filter(({ isOver }) => !isOver).length),
  });
  gauge({
    name: 'gpu_orchestrator_worker_pool_workers',
    help: 'Workers of a worker pool that run',
    registry,
    samples: () => figures().workerPools.map(({ id, workers }): Sample => [{ pool_id: id }, workers]),
  });
  gauge({
    name: 'gpu_orchestrator_leases_active',
    help: 'Leases that are held',
    registry,
    samples: () => single(figures().leases.active),
  });
  gauge({
    name: 'gpu_orchestrator_leases_free',
    help: 'Devices for leases that no lease is held on',
    registry,
    samples: () => single(figures().leases.freeDevices),
  });
  gauge({
    name: 'gpu_orchestrator_gpu_mem_used_pct',
    help: 'Used memory of a device, as its pool last said, in percent',
    registry,
    samples: () => usedMemory(figures()),
  });
  histogram({
    name: 'gpu_orchestrator_job_latency_seconds',
    help: 'From the submit, or the last redrive, to the end of jobs that ran',
    registry,
    series: () => Array.from(latency.byType, ([type, buckets]) => [{ type }, buckets] as const),
  });
}

/** Devices of two pools may have the same index. */
function* usedMemory({ pools }: Figures): Generator<Sample> {
  for (const { id: pool_id, devices } of pools)
    for (const { id, totalBytes, availableBytes } of devices)
      if (totalBytes > 0)
        yield [{ pool_id, gpu_index: String(id) }, (100 * (totalBytes - availableBytes)) / totalBytes];
}
