/** An orchestrator on a folder, set up so that nothing but what is measured holds it back. */
import { createOrchestrator, type FunctionBackendOptions, type Orchestrator } from '../../src/index.ts';
import { BODY } from './bench.ts';
import { countingEnv } from './counting-disk.ts';
import { inFlight } from './numbers.ts';

/** Room for every waiting job of every bench; all else is as it comes. */
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

/** `more` is configuration beside that of every bench. */
export async function openBrain(
  data: string,
  backends: FunctionBackendOptions[] = [],
  more = '',
): Promise<Brain> {
  const { env, syncs } = countingEnv();
  const orchestrator = await createOrchestrator({ data, backends, config: `${CONFIG}\n${more}`, env });
  return { orchestrator, syncs };
}

/** Jobs that no backend can run: they wait. */
export async function fillWithWaiting(orchestrator: Orchestrator, count: number, body = BODY): Promise<void> {
  await inFlight(count, 512, () => orchestrator.submit({ type: 'waiting', payload: { body } }));
}
