/** The answer to an autoscaler. It may be ahead of what is durable: it is read every second, and nothing is promised by it. */
import type { EngineView } from '../core/turn.ts';
import { scalingOf } from '../core/workers/scaling.ts';
import { OrchdError } from '../model/errors.ts';
import type { ScalingView } from '../model/http/scaling.ts';

export function scalingView(engine: EngineView, pool: string, now: number): ScalingView {
  const found = scalingOf(engine, pool, now);
  if (!found)
    throw new OrchdError(
      'NOT_FOUND',
      `there is no pool "${pool}": GET /v2/consumers and GET /v2/pools name them`,
    );
  const { kind, waiting, predictedWaitMs, running, slots, members, wished } = found;
  return {
    pool,
    waiting,
    predicted_wait_ms: predictedWaitMs ?? null,
    running,
    slots,
    [kind]: members,
    wished,
  };
}
