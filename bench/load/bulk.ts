/** Submits a fixed number of jobs in arrays of 1,000, from a process of its own. */
import { BODY } from '../kit/bench.ts';
import { now } from '../kit/numbers.ts';

export interface BulkLoad {
  readonly url: string;
  readonly batch: string;
  readonly jobs: number;
  readonly connections: number;
}

/** A job that nobody runs: only its submit is measured. */
export const WAITING_JOB = { type: 'waiting', payload: { body: BODY }, wait_for_backend: true };

const PER_CALL = 1000;

/** Returns the milliseconds that it took. */
export async function measure({ url, batch, jobs, connections }: BulkLoad): Promise<number> {
  const bodies = Array.from({ length: jobs / PER_CALL }, (_, call) =>
    JSON.stringify(
      Array.from({ length: PER_CALL }, (__, at) => ({
        ...WAITING_JOB,
        job_id: `${batch}.${call * PER_CALL + at + 1}`,
        batch,
      })),
    ),
  );
  const start = now();
  const client = async (): Promise<void> => {
    for (let body = bodies.pop(); body !== undefined; body = bodies.pop()) {
      const headers = { 'content-type': 'application/json' };
      const answer = await fetch(`${url}/v2/tasks`, { method: 'POST', headers, body });
      if (/"error":/.test(await answer.text())) throw new Error('a job was refused');
    }
  };
  await Promise.all(Array.from({ length: connections }, client));
  return now() - start;
}
