/**
 * The gates of admission: how many jobs may wait, of all agents and of one, and how much memory of the GPUs may be used
 * before no more workers are started. Each gate closes at one mark and opens at a lower one, so that it does not flutter.
 *
 * A1  A gate refuses new jobs alone: what is admitted is never dropped, and retries are never refused.
 * A2  The gate of memory stops starts of workers, not jobs: those whose model is loaded run.
 */
import { OrchdError } from '../../model/errors.ts';
import type { GateSettings } from '../../model/policy.ts';
import type { Turn } from '../turn.ts';
import type { Submission } from './submission.ts';

/** The retry time of a refusal while no start rate has been measured, and the longest one. */
const RETRY_MS = 1000;
const MAX_RETRY_MS = 60_000;

/** Between its marks a gate stays as it was. */
export const isClosed = (wasClosed: boolean, isOver: boolean, isUnder: boolean): boolean =>
  wasClosed ? !isUnder : isOver;

/** Refuses a job while the gate of the queue, or of its agent, is closed. */
export function checkGates(turn: Turn, { tenant, spec: { agent } }: Submission): void {
  const { gates } = turn.settings;
  if (!gates) return;
  closeDepth(turn, gates);
  const { queueDepth, agentWaiting } = gates;
  const closed = turn.state.gates;
  if (queueDepth?.onDepth === 'reject' && closed.depth) {
    const { queued } = turn.state.counts;
    const message = `${queued} jobs wait, and new ones are taken when fewer than ${queueDepth.openBelow} do`;
    throw new OrchdError('RATE_LIMITED', message, {
      reason: 'queue_depth',
      policyLabel: 'gates.queue_depth',
      retryAfterMs: retryAfterMs(turn, queued - queueDepth.openBelow + 1),
    });
  }
  if (!agentWaiting) return;
  const waiting = closed.waitingOf(tenant, agent);
  const { high, low } = agentWaiting;
  if (!isClosed(closed.isAgentClosed(tenant, agent), waiting >= high, waiting < low)) return;
  closed.closeAgent(tenant, agent);
  const message = `${waiting} jobs of the agent "${agent}" wait, and new ones are taken when fewer than ${low} do`;
  throw new OrchdError('RATE_LIMITED', message, {
    reason: 'agent_waiting',
    policyLabel: 'gates.agent_waiting',
    retryAfterMs: retryAfterMs(turn, waiting - low + 1),
  });
}

/** The expected time until so many jobs have started. */
function retryAfterMs({ queue, now }: Turn, jobs: number): number {
  const each = queue.startRate.retryAfterMs(now);
  return each === undefined ? RETRY_MS : Math.min(MAX_RETRY_MS, each * Math.max(1, jobs));
}

/** Closes and opens gates by what is measured now. Called before jobs are placed and workers are planned. */
export function updateGates(turn: Turn): void {
  const { state, settings, queue } = turn;
  const gates = settings.gates ?? NO_GATES;
  const wasClosed = state.gates.memory;
  closeDepth(turn, gates);
  measure(turn, gates);
  if (wasClosed !== state.gates.memory) state.pools.changed = true;
  if (!gates.agentWaiting) state.gates.openAgents();
  state.gates.agentLow = gates.agentWaiting?.low ?? 0;
  const isKept = gates.queueDepth?.onDepth === 'cpu' && !state.gates.depth;
  if (queue.fleet.keepCpu(isKept)) state.pools.changed = true;
}

const NO_GATES: GateSettings = {};

function closeDepth({ state }: Turn, { queueDepth }: GateSettings): void {
  const { gates, counts, pools } = state;
  const { queued } = counts;
  const wasClosed = gates.depth;
  gates.depth =
    queueDepth !== undefined &&
    isClosed(wasClosed, queued > queueDepth.closeAbove, queued < queueDepth.openBelow);
  if (wasClosed !== gates.depth) pools.changed = true;
}

function measure({ state: { gates, pools } }: Turn, { gpuMemory }: GateSettings): void {
  if (!gpuMemory) {
    gates.memory = false;
    return;
  }
  const { used, total } = pools.memory();
  gates.usedBytes = used;
  gates.totalBytes = total;
  const percent = total === 0 ? 0 : (used / total) * 100;
  gates.memory = isClosed(gates.memory, percent > gpuMemory.closeAbove, percent < gpuMemory.openBelow);
}
