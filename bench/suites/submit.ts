/** Durable submits. No backend can run the jobs, so only admission and the commit are measured. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { type Bench, BODY, IN_FLIGHT, type Values, windowOf } from '../kit/bench.ts';
import { openBrain } from '../kit/brain.ts';
import { inChild } from '../kit/child.ts';
import { steady } from '../kit/steady.ts';

interface Args {
  readonly folder: string;
  readonly inFlight: number;
  readonly warmMs: number;
  readonly measureMs: number;
}

export async function measure({ folder, ...load }: Args): Promise<Values> {
  const { orchestrator, syncs } = await openBrain(folder);
  const submit = (): Promise<unknown> => orchestrator.submit({ type: 'waiting', payload: { body: BODY } });
  const values = await steady({ ...load, folder, syncs }, submit);
  await orchestrator.stop();
  return values;
}

export const bench: Bench = {
  name: 'submit',
  title: 'submit, durable before the answer (200-byte body, jobs wait)',
  rounds: 'every',
  async run(options) {
    const rows = [];
    for (const inFlight of IN_FLIGHT) {
      const folder = join(options.folder, `submit-${inFlight}`);
      const args = { folder, inFlight, ...windowOf(options) };
      rows.push({
        case: `submit@${inFlight}`,
        values: await inChild({ measure, url: import.meta.url }, args),
      });
      rmSync(folder, { recursive: true });
    }
    return rows;
  },
};
