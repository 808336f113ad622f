/** What the brain is told about a seat of a gateway: the declaration of its backend. */
import type { BackendInfo } from '../../core/ports/backend.ts';

export const SEAT_KIND = 'gateway';

/** The gateway of a seat. */
export interface SeatHome {
  /** Its name in labels: `local`, the name in `backends.gateways`, or the host and port of the one at `pool.url`. */
  readonly label: string;
  /** Stands before the names of its seats in the names of their backends, so that two gateways may have seats of one name. */
  readonly prefix: string;
  /** The node at which it runs; undefined outside of a cluster, and for a gateway that every node can reach. */
  readonly node: string | undefined;
  readonly timeoutMs: number;
}

export interface SeatFacts {
  readonly name: string;
  readonly models: readonly string[];
  readonly slots: number;
  /** Its provider runs requests in batches, and bills them so. */
  readonly isBatched: boolean;
  /** The seat is not configured any more: what runs there ends, and nothing new is begun. */
  readonly isFormer: boolean;
}

/** `registry` is empty until the gateway has answered. */
export const seatInfo = (
  { label, prefix, node, timeoutMs }: SeatHome,
  { name, models, slots, isBatched, isFormer }: SeatFacts,
  registry: string,
  outage: string | undefined,
): BackendInfo => ({
  name: prefix + name,
  kind: SEAT_KIND,
  slots: Math.max(slots, 1),
  types: ['inference'],
  models: isFormer ? [] : models,
  labels: { gateway: label, seat: name },
  paid: true,
  hasProvider: true,
  isBatched,
  keepsResults: true,
  endsWithProcess: true,
  registry,
  hasForeignModels: true,
  formerModels: isFormer ? models : [],
  timeoutMs,
  outage,
  node,
});
