/** Ours: a function backend whose slots are as many as jobs are in flight. */
import { openBrain } from '../kit/brain.ts';
import type { JobBody, System } from './system.ts';

/** Where it is not the journal that is measured. */
export interface OrchdOptions {
  readonly config?: string;
  /** Server processes that do its work. */
  readonly servers?: readonly number[];
}

export async function openOrchd(folder: string, slots: number, options: OrchdOptions = {}): Promise<System> {
  let gate: PromiseWithResolvers<void> | undefined = Promise.withResolvers();
  // The first jobs take the slots and wait in their handlers until work begins; all others wait behind them.
  const handle = (job: JobBody): void | Promise<void> =>
    gate ? gate.promise.then(() => system.onStart(job)) : system.onStart(job);
  const backends = [{ name: 'no-op', slots, types: { bench: handle } }];
  const { orchestrator, syncs } = await openBrain(folder, backends, options.config);
  const system: System = {
    servers: options.servers ?? [],
    // What a server syncs is not ours to count.
    ...(!options.servers && { syncs }),
    onStart: () => undefined,
    async submit(payload) {
      await orchestrator.submit({ type: 'bench', payload });
    },
    async submitMany(payloads) {
      await orchestrator.submitMany(payloads.map((payload) => ({ type: 'bench', payload })));
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
    async close() {
      // It would wait for those that hold the slots.
      gate?.resolve();
      await orchestrator.stop();
    },
  };
  return system;
}
