/**
 * What operators set of the brain at run time: the gates of admission, which keep a flood of jobs from the queue and full
 * devices from more workers (docs/gates.md), how many workers there are and for how long, and the limits.
 */
import type { LimitSpec } from './limit-records.ts';

/** What happens while more jobs wait than the gate of the queue lets wait. */
export const ON_DEPTH = ['scale_up', 'reject', 'cpu'] as const;
export type OnDepth = (typeof ON_DEPTH)[number];

/** Jobs that wait, of all agents together. */
export interface DepthGate {
  /** The gate closes when more jobs than this wait. */
  readonly closeAbove: number;
  /** The gate opens again when fewer jobs than this wait. */
  readonly openBelow: number;
  /**
   * `scale_up` starts another worker for each model whose jobs wait; `reject` refuses new jobs; `cpu` lets them run on
   * backends with the label `device: cpu`, which are otherwise kept for jobs that ask for that label.
   */
  readonly onDepth: OnDepth;
}

/** The used memory of all GPUs that pools report, in percent. */
export interface MemoryGate {
  readonly closeAbove: number;
  readonly openBelow: number;
}

/** Jobs that wait, of one agent. */
export interface AgentMarks {
  /** From this many on, new jobs of the agent are refused. */
  readonly high: number;
  /** They are taken again when fewer than this wait. */
  readonly low: number;
}

/** A gate that is absent is off. */
export interface GateSettings {
  readonly queueDepth?: DepthGate | undefined;
  readonly gpuMemory?: MemoryGate | undefined;
  readonly agentWaiting?: AgentMarks | undefined;
}

/** All marks as people write them: an upper mark of 0 turns a gate off, a lower one of 0 is a share of the upper one. */
export type WrittenMarks = { readonly [K in keyof GateSettings]-?: NonNullable<GateSettings[K]> };

const LOW_SHARE = 0.8;

/** The gates in force; one that is not written is as in `otherwise`. */
export function gatesInForce(written: Partial<WrittenMarks>, otherwise: GateSettings = {}): GateSettings {
  const queueDepth = written.queueDepth ? depthInForce(written.queueDepth) : otherwise.queueDepth;
  const gpuMemory = written.gpuMemory ? memoryInForce(written.gpuMemory) : otherwise.gpuMemory;
  const agentWaiting = written.agentWaiting ? marksInForce(written.agentWaiting) : otherwise.agentWaiting;
  return {
    ...(queueDepth && { queueDepth }),
    ...(gpuMemory && { gpuMemory }),
    ...(agentWaiting && { agentWaiting }),
  };
}

const depthInForce = ({ closeAbove, openBelow, onDepth }: DepthGate): DepthGate | undefined =>
  closeAbove > 0 ? { closeAbove, openBelow: openBelow || lowerJobs(closeAbove), onDepth } : undefined;

const memoryInForce = ({ closeAbove, openBelow }: MemoryGate): MemoryGate | undefined =>
  closeAbove > 0 ? { closeAbove, openBelow: openBelow || closeAbove * LOW_SHARE } : undefined;

const marksInForce = ({ high, low }: AgentMarks): AgentMarks | undefined =>
  high > 0 ? { high, low: low || lowerJobs(high) } : undefined;

const lowerJobs = (upper: number): number => Math.max(1, Math.floor(upper * LOW_SHARE));

/** The label of backends that compute without a GPU. */
export const CPU_LABEL = { name: 'device', value: 'cpu' } as const;

export const isCpu = (labels: Readonly<Record<string, string>> | undefined): boolean =>
  labels?.[CPU_LABEL.name] === CPU_LABEL.value;

/** Which field of the gates contradicts another one, and how; undefined if none does. */
export function gatesFault(
  gates: GateSettings,
): { readonly field: string; readonly message: string } | undefined {
  const { queueDepth, gpuMemory, agentWaiting } = gates;
  for (const [name, gate] of Object.entries({ queue_depth: queueDepth, gpu_memory: gpuMemory }))
    if (gate && gate.openBelow > gate.closeAbove)
      return {
        field: `${name}.open_below`,
        message: `may not be more than close_above (${gate.closeAbove}): the gate would open as it closes`,
      };
  if (agentWaiting && agentWaiting.low > agentWaiting.high)
    return { field: 'agent_waiting.low', message: `may not be more than high (${agentWaiting.high})` };
  return undefined;
}

/** What operators have set; what is absent is as the configuration says. */
export interface PolicyValues {
  readonly gates?: Partial<WrittenMarks> | undefined;
  /** A worker that has been idle for this long is stopped. */
  readonly idleUnloadMs?: number | undefined;
  readonly maxWorkersPerModel?: number | undefined;
  /** A worker pool has at least so many workers. */
  readonly minWarmWorkersPerPool?: number | undefined;
  /** No worker is started while so many are there. */
  readonly maxTotalWorkers?: number | undefined;
  /** Another worker of a model is started when the expected wait of its jobs is longer than this. */
  readonly scaleUpWaitMs?: number | undefined;
}

/** Whose workers an operator evicts: those of a worker pool, or those of the pool of a pool manager. */
export const EVICTED_KINDS = ['worker_pool', 'pool'] as const;
export type EvictedKind = (typeof EVICTED_KINDS)[number];

/** The id of the only record of kind `policy`. */
export const POLICY_ID = 'policy';

/** Who has set the values, and why. */
export interface PolicyVersion {
  readonly by: string;
  readonly why: string;
  readonly at: number;
  readonly values: PolicyValues;
}

export interface PolicyRecord extends PolicyVersion {
  readonly v: 1;
  /** What was in force before; an undo puts it back. */
  readonly before: PolicyVersion;
  /** Limits that were set with the values, and those that they replaced; undefined if the limits were left as they were. */
  readonly limits?: PolicyLimits | undefined;
}

export interface PolicyLimits {
  readonly before: readonly LimitSpec[];
  readonly after: readonly LimitSpec[];
}

/** As if nobody had set anything. */
export const NO_POLICY: PolicyVersion = { by: 'start', why: '', at: 0, values: {} };
