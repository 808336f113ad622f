/** The reads of the brain from which the stream of a run is made, for one caller. */
import type { RunSources } from '../agents/call-events.ts';
import type { Env } from '../kit/env/env.ts';
import { pause } from '../kit/pause.ts';
import { uidOf } from '../model/records.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';

const POLL_INTERVAL_MS = 1000;

export interface RunSourceParts {
  readonly orchestrator: Orchestrator;
  readonly tenant: string;
  /** Ends everything that is followed. */
  readonly signal: AbortSignal;
  /** Places in the queue are told only where it is given. */
  readonly env?: Pick<Env, 'timers'>;
}

export function runSources({ orchestrator, tenant, signal, env }: RunSourceParts): RunSources {
  return {
    follow: (id, after) => orchestrator.events(id, { tenant, after, signal }),
    read: (id) => orchestrator.get(id, tenant),
    ...(env && {
      positions: (id: string, stop: AbortSignal) =>
        positionsOf({
          orchestrator,
          env,
          uid: uidOf(tenant, id),
          id,
          signal: AbortSignal.any([signal, stop]),
        }),
    }),
  };
}

interface PositionParts extends Pick<RunSourceParts, 'orchestrator' | 'signal'> {
  readonly env: Pick<Env, 'timers'>;
  readonly uid: string;
  readonly id: string;
}

/** The place of a job in the queue, whenever a poll finds it changed. The first one is told when the job is followed. */
async function* positionsOf({ orchestrator, env, uid, id, signal }: PositionParts): AsyncGenerator<object> {
  let last = orchestrator.reads.queuePosition(uid)?.position;
  for (;;) {
    await pause(env.timers, POLL_INTERVAL_MS, signal);
    if (signal.aborted) return;
    const now = orchestrator.reads.queuePosition(uid);
    if (now?.position === last) continue;
    last = now?.position;
    if (!now) continue;
    const { position, predictedStartMs } = now;
    yield {
      job_id: id,
      ...(position !== undefined && { queue_position: position }),
      ...(predictedStartMs !== undefined && { predicted_start_ms: predictedStartMs }),
    };
  }
}
