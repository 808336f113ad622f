/** Ours: a function backend whose slots are as many as jobs are in flight. */
import { openBrain } from '../kit/brain.ts';
import type { JobBody, System } from './system.ts';

export async function openOrchd(folder: string, slots: number): Promise<System> {
  let gate: PromiseWithResolvers<void> | undefined = Promise.withResolvers();
  // The first jobs take the slots and wait in their handlers until work begins; all others wait behind them.
  const handle = (job: JobBody): void | Promise<void> =>
    gate ? gate.promise.then(() => system.onStart(job)) : system.onStart(job);
  const { orchestrator, syncs } = await openBrain(folder, [
    { name: 'no-op', slots, types: { bench: handle } },
  ]);
  const system: System = {
    servers: [],
    syncs,
    onStart: () => undefined,
    async submit(payload) {
      await orchestrator.submit({ type: 'bench', payload });
    },
    async cycle(payload) {
      const { job_id } = await orchestrator.submit({ type: 'bench', payload });
      await orchestrator.wait(job_id);
    },
    async work() {
      gate?.resolve();
      gate = undefined;
    },
    async rest() {
      gate = Promise.withResolvers();
    },
    close: () => orchestrator.stop(),
  };
  return system;
}
