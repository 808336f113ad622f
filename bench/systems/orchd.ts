/** orchd in this process, with a function backend that does nothing. */
import { openBrain } from '../kit/brain.ts';
import type { JobBody, System } from './system.ts';

/** Options for measuring another store than the journal. */
export interface OrchdOptions {
  readonly config?: string;
  /** The processes of that store's server. */
  readonly servers?: readonly number[];
}

export async function openOrchd(folder: string, slots: number, options: OrchdOptions = {}): Promise<System> {
  let gate: PromiseWithResolvers<void> | undefined = Promise.withResolvers();
  // Until work() the first jobs take the slots and wait in their handlers; all others wait in the queue.
  const handle = (job: JobBody): void | Promise<void> =>
    gate ? gate.promise.then(() => system.onStart(job)) : system.onStart(job);
  const backends = [{ name: 'no-op', slots, types: { bench: handle } }];
  const { orchestrator, syncs } = await openBrain(folder, backends, options.config);
  const system: System = {
    servers: options.servers ?? [],
    // With a database server the syncs happen in that server, where they are not counted.
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
      // stop() waits for the jobs in the slots, so they must end first.
      gate?.resolve();
      await orchestrator.stop();
    },
  };
  return system;
}
