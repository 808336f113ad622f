import type { BackoffPolicy } from '../kit/backoff.ts';
import type { Device } from './admission/lease.ts';
import type { LanePolicy } from './queue/lane.ts';
import type { StateSettings } from './state.ts';

/** What the engine needs to know of the configuration. */
export interface EngineSettings extends StateSettings, LanePolicy {
  /** What leases are given out of. */
  readonly devices: readonly Device[];
  readonly queueCapacity: number;
  readonly queueBytes: number;
  readonly queuePolicy: 'reject' | 'drop-lru';
  readonly maxPayloadBytes: number;
  readonly maxTries: number;
  readonly backoff: BackoffPolicy;
  readonly failureCacheTtlMs: number;
  /** How long a backend that said busy, without a time of its own, gets nothing. */
  readonly busyPauseMs: number;
}
