/** Opens an orchestrator on a folder, with limits that no bench reaches. */
import type { Backend } from '../../src/core/ports/backend.ts';
import { createOrchestrator, type FunctionBackendOptions, type Orchestrator } from '../../src/index.ts';
import { BODY } from './bench.ts';
import { countingEnv } from './counting-disk.ts';
import { inFlight } from './numbers.ts';

/** A queue large enough for the waiting jobs of every bench; everything else has its default. */
export const CONFIG = `
orchestrator:
  queue_capacity: 10000000
  queue:
    capacity_bytes: 1099511627776
`;

export interface Brain {
  readonly orchestrator: Orchestrator;
  readonly syncs: () => number;
}

/** `more` is YAML that is appended to CONFIG. */
export async function openBrain(
  data: string,
  backends: (FunctionBackendOptions | Backend)[] = [],
  more = '',
): Promise<Brain> {
  const { env, syncs } = countingEnv();
  const orchestrator = await createOrchestrator({ data, backends, config: `${CONFIG}\n${more}`, env });
  return { orchestrator, syncs };
}

/** Submits jobs that no backend can run, so that they stay in the queue. */
export async function fillWithWaiting(orchestrator: Orchestrator, count: number, body = BODY): Promise<void> {
  await inFlight(count, 512, () => orchestrator.submit({ type: 'waiting', payload: { body } }));
}
