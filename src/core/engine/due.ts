/**
 * The effect that should be under way for a job or a worker, derived from the records alone. An event is only a hint
 * to look: if one is lost, the next sweep over due() and dueWorkers() starts what it would have started. Start-up and
 * take-over run the same sweep.
 */
import type { WorkerStatus } from '../../model/pool-wire.ts';
import type { AttemptRecord, WorkerRecord } from '../../model/records.ts';
import type { JobEntry } from '../state/job-entry.ts';
import type { State } from '../state/state.ts';
import type { EngineView } from '../turn.ts';

/** `publish`: nobody has claimed the attempt; consumers are told that it waits. */
export type EffectKind = 'offer' | 'follow' | 'inspect' | 'kill' | 'publish';

export interface Effect {
  readonly kind: EffectKind;
  readonly token: string;
  readonly backend: string;
  /** The sequence number that must be durable before the effect may begin. */
  readonly after: number;
}

export function dueFor({ state, queue }: EngineView, entry: JobEntry): Effect | undefined {
  const { open, token } = entry;
  if (!open || queue.fleet.isAway(open.backend)) return undefined;
  if (open.isPulled) return dueForPulled(entry, open);
  const effect = (kind: EffectKind): Effect => ({ kind, token, backend: open.backend, after: entry.seq });
  if (open.kill) return effect('kill');
  // The executor may or may not know an attempt of an earlier brain: inspect it first.
  if (open.epoch !== state.brain?.epoch) return effect('inspect');
  switch (open.state) {
    case 'intended':
      return effect('offer');
    case 'accepted':
      return effect('follow');
    case 'unknown':
      return effect('inspect');
    default:
      return undefined;
  }
}

/** The brain is the memory of pulled work: nobody has to be inspected, and holders learn of kills by their heartbeats. */
function dueForPulled({ token, seq }: JobEntry, open: AttemptRecord): Effect | undefined {
  if (open.state !== 'intended' || open.kill) return undefined;
  return { kind: 'publish', token, backend: open.backend, after: seq };
}

/** An order that a pool manager should receive. */
export interface WorkerEffect {
  readonly kind: 'start' | 'drain' | 'stop';
  readonly id: string;
  readonly record: WorkerRecord;
}

/** The orders to pools that answer. An order is due until the pool's report shows that it was carried out. */
export function dueWorkers(state: State): WorkerEffect[] {
  const effects: WorkerEffect[] = [];
  for (const [id, record] of state.workers.entries()) {
    const kind = dueWorker(state, id);
    if (kind) effects.push({ kind, id, record });
  }
  return effects;
}

/** The order that is due for one worker. */
export function dueWorker(state: State, id: string): WorkerEffect['kind'] | undefined {
  const record = state.workers.get(id);
  if (!record) return undefined;
  const pool = state.pools.get(record.pool);
  return pool?.up ? orderFor(record, pool.workers.get(id)?.status) : undefined;
}

function orderFor(record: WorkerRecord, shown: WorkerStatus | undefined): WorkerEffect['kind'] | undefined {
  switch (record.state) {
    case 'starting':
      return shown === undefined ? 'start' : undefined;
    case 'draining':
      return shown === 'ready' || shown === 'busy' ? 'drain' : undefined;
    case 'stopping':
      return shown === undefined ? undefined : 'stop';
    case 'running':
      return undefined;
  }
}

export function due(view: EngineView): Effect[] {
  const effects: Effect[] = [];
  for (const entry of view.state.open.values()) {
    const effect = dueFor(view, entry);
    if (effect) effects.push(effect);
  }
  return effects;
}
