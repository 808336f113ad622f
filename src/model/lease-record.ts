/**
 * A right to a device: for a time and kept alive by heartbeats (`ttlMs`), or for as long as an attempt is open (`attempt`).
 * A lease with neither is not about a device: it records at which node (`agent`) a backend runs, so that no other node
 * calls that backend.
 */
export interface LeaseRecord {
  readonly v: 2;
  readonly tenant: string;
  /** The holder: an agent, a consumer or, in the lease of a backend, a node. */
  readonly agent: string;
  /** The pool of the device; undefined for a device of the configuration. */
  readonly pool: string | undefined;
  /** The device; undefined if the holder may use only the CPU. */
  readonly gpuIndex: number | undefined;
  readonly minMemoryMb: number;
  /** What programs that hold no lease used of a pool's device when the lease was granted. */
  readonly othersBytes: number | undefined;
  /** The token of the attempt for which a consumer holds the device: the lease ends with it. */
  readonly attempt: string | undefined;
  /** Grows with every grant: a resource refuses a holder with a lower fence than it has seen. */
  readonly fence: number;
  readonly grantedAt: number;
  /** The lease expires this long after its last heartbeat. */
  readonly ttlMs: number | undefined;
  readonly heartbeatAt: number;
  /** The expiry as of the last written heartbeat: not every heartbeat is written. */
  readonly expiresAt: number | undefined;
  /** For the lease of a backend: the registry of its executor. */
  readonly registry: string | undefined;
}
