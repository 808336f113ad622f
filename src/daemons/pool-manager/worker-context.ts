/** What a pool manager provides to each of its workers: services, timeouts and callbacks. */
import type { Env } from '../../kit/env/env.ts';
import type { Logger } from '../../kit/logger.ts';
import type { Outbound } from '../../wire/outbound.ts';
import type { PoolLayout } from './layout.ts';

export interface WorkerTimes {
  readonly startTimeoutMs: number;
  /** The time between SIGTERM and SIGKILL. */
  readonly graceMs: number;
  readonly healthIntervalMs: number;
  readonly healthTimeoutMs: number;
  /** A worker that fails this many health checks in a row counts as failed. */
  readonly healthMisses: number;
}

export interface WorkerContext {
  readonly env: Env;
  readonly layout: PoolLayout;
  /** The registry id of the manager, see PoolFolder. */
  readonly registry: string;
  readonly outbound: Outbound;
  readonly logger: Logger;
  readonly times: WorkerTimes;
  /** Whether a worker may report this as its address: http, an allowed host, no path. The brain sends secrets there. */
  allowsUri(uri: string): boolean;
  /** Whether the device has at least this much unreserved memory. */
  hasRoom(gpu: number, bytes: number): boolean;
  /**
   * Called when the state that the pool reports of the worker has changed. `ready`: it has loaded its model. `gone`: its
   * processes have ended. With these two its use of device memory has changed as well. `status`: any other change.
   */
  onChange(what: 'status' | 'ready' | 'gone'): void;
}
