/** What a worker needs of its manager. */
import type { Env } from '../../kit/env/env.ts';
import type { Logger } from '../../kit/logger.ts';
import type { Outbound } from '../../wire/outbound.ts';
import type { PoolLayout } from './layout.ts';

export interface WorkerTimes {
  readonly startTimeoutMs: number;
  /** Between SIGTERM and SIGKILL. */
  readonly graceMs: number;
  readonly healthIntervalMs: number;
  readonly healthTimeoutMs: number;
  readonly healthMisses: number;
}

export interface WorkerParts {
  readonly env: Env;
  readonly layout: PoolLayout;
  /** The identity of the manager's memory. */
  readonly registry: string;
  readonly outbound: Outbound;
  readonly logger: Logger;
  readonly times: WorkerTimes;
  allowsUri(uri: string): boolean;
  /** Whether a device could give that much more. */
  hasRoom(gpu: number, bytes: number): boolean;
  /** Something that can be seen is different now. */
  onChange(what: 'status' | 'ready' | 'gone'): void;
}
