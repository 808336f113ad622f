/** orchd in this process, with a backend that counts as a worker of a pool, and that does nothing. */
import { FunctionBackend } from '../../src/backends/local/functions.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { openBrain } from '../kit/brain.ts';
import type { System } from './system.ts';

export const POOL = 'box';
const MODEL = 'file:/models/m.gguf';

export async function openPooled(
  folder: string,
  slots: number,
  { config }: { readonly config?: string } = {},
): Promise<System> {
  const options = { name: `${POOL}/w-1`, slots, models: [MODEL], types: { bench: () => undefined } };
  const plain = new FunctionBackend(realEnv(), options);
  const backend = Object.assign(plain, { info: { ...plain.info, home: { pool: POOL, device: 0 } } });
  const { orchestrator, syncs } = await openBrain(folder, [backend], config);
  await orchestrator.catalog.register({
    ...{ id: 'm', name: 'm', ref: MODEL, aliases: [], sizeBytes: 1, vramBytes: 1, vramGuessed: undefined },
    ...{ contextLength: 4096, slots, sha256: undefined, signature: undefined, publicKey: undefined },
  });
  const cycle = async (payload: unknown): Promise<void> => {
    const { job_id } = await orchestrator.submit({ type: 'bench', model: 'm', payload });
    await orchestrator.wait(job_id);
  };
  return {
    servers: [],
    syncs,
    onStart: () => undefined,
    submit: (payload) => cycle(payload),
    submitMany: async (payloads) => void (await Promise.all(payloads.map(cycle))),
    cycle,
    work: async () => undefined,
    rest: async () => undefined,
    close: () => orchestrator.stop(),
  };
}
