/** Measurements of this process, under the names that the Prometheus clients of Node use. */
import type { Registry } from 'prom-client';
import type { LoopDelayMeter } from '../kit/process/loop-delay.ts';
import { maxOpenFiles, openFiles, type ProcessUsage } from '../kit/process/usage.ts';
import { counter, gauge, single } from './family.ts';

type Names = readonly (readonly [name: string, help: string, of: (usage: ProcessUsage) => number])[];

const COUNTERS: Names = [
  ['process_cpu_user_seconds_total', 'Processor time in user mode', (usage) => usage.cpuUserSec],
  ['process_cpu_system_seconds_total', 'Processor time in the kernel', (usage) => usage.cpuSystemSec],
  [
    'process_cpu_seconds_total',
    'Processor time of all threads',
    ({ cpuUserSec, cpuSystemSec }) => cpuUserSec + cpuSystemSec,
  ],
];

const GAUGES: Names = [
  ['process_start_time_seconds', 'When the process started, in Unix time', (usage) => usage.startedAtSec],
  ['process_resident_memory_bytes', 'Resident memory', (usage) => usage.residentBytes],
  ['nodejs_heap_size_total_bytes', 'Size of the heap', (usage) => usage.heapTotalBytes],
  ['nodejs_heap_size_used_bytes', 'Used part of the heap', (usage) => usage.heapUsedBytes],
  [
    'nodejs_external_memory_bytes',
    'Memory of objects outside of the heap, buffers among them',
    (usage) => usage.externalBytes,
  ],
];

/** `usage` returns the usage at the scrape that is being answered. */
export function processMetrics(usage: () => ProcessUsage, registry: Registry): void {
  for (const [name, help, of] of COUNTERS)
    counter({ name, help, registry, samples: () => single(of(usage())) });
  for (const [name, help, of] of GAUGES) gauge({ name, help, registry, samples: () => single(of(usage())) });
  counter({
    name: 'nodejs_eventloop_time_seconds_total',
    help: 'Time in which the event loop ran callbacks (active) or waited for events (idle)',
    registry,
    samples: () => {
      const { loopActiveSec, loopIdleSec } = usage();
      return [
        [{ state: 'active' }, loopActiveSec],
        [{ state: 'idle' }, loopIdleSec],
      ];
    },
  });
  gauge({
    name: 'process_open_fds',
    help: 'Open file descriptors, sockets among them',
    registry,
    samples: async () => single(await openFiles()),
  });
  gauge({
    name: 'process_max_fds',
    help: 'The most file descriptors that the process may have open',
    registry,
    samples: async () => single(await maxOpenFiles()),
  });
}

export function loopDelayMetric(meter: LoopDelayMeter, registry: Registry): void {
  gauge({
    name: 'orchd_event_loop_delay_seconds',
    help: 'How late the event loop ran its timers since the last scrape: median, 99th percentile, and maximum (1)',
    registry,
    samples: () => {
      const { p50Sec, p99Sec, maxSec } = meter.take();
      return [
        [{ quantile: '0.5' }, p50Sec],
        [{ quantile: '0.99' }, p99Sec],
        [{ quantile: '1' }, maxSec],
      ];
    },
  });
}
