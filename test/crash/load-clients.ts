/** Clients that keep a brain busy: one job after the other, each told of before the next. */
import { OrchdError } from '../../src/model/errors.ts';
import type { SubmitRequest } from '../../src/model/submit.ts';
import type { Orchestrator } from '../../src/runtime/orchestrator.ts';
import type { AppendFile } from './append-file.ts';
import type { Work } from './ledger.ts';
import { type Ack, ackedJob, submitted } from './script.ts';
import { seededRandom } from './steady-env.ts';

const WORK: readonly (() => { work: Work; more?: Partial<SubmitRequest> })[] = [
  () => ({ work: {} }),
  () => ({ work: { ms: 3 } }),
  () => ({ work: { text: 'p'.repeat(6000), resultBytes: 6000 } }),
  () => ({ work: { fails: 1 } }),
  () => ({ work: { busy: 1 } }),
  () => ({ work: { fails: 9 }, more: { max_tries: 2 } }),
];

export interface ClientOptions {
  readonly name: string;
  readonly seed: number;
  readonly acks: AppendFile;
  readonly now: () => number;
  /** Called after each job with its number; the client stops when it says so. */
  readonly afterJob: (n: number) => Promise<'more' | 'enough'>;
}

export async function runClient(brain: Orchestrator, options: ClientOptions): Promise<void> {
  const { name, seed, acks, now, afterJob } = options;
  const random = seededRandom(seed);
  for (let n = 1; ; n++) {
    const { work, more } = (WORK[Math.floor(random.next() * WORK.length)] as (typeof WORK)[number])();
    const label = `${name}-${n}`;
    const request = { job_id: label, type: 'work', payload: work, ...more } as SubmitRequest;
    const { asked, answer } = await patiently(() => submitted(brain, request));
    const again = asked > 1 ? ({ again: true } as const) : {};
    acks.add({ step: n, at: now(), did: 'submit', label, ...answer, ...again } satisfies Ack);
    const { answer: job } = await patiently(() => brain.wait(answer.id));
    acks.add({ step: n, at: now(), did: 'wait', label, job: ackedJob(job) } satisfies Ack);
    if ((await afterJob(n)) === 'enough') return;
  }
}

/** Ids of their own make it safe to ask again where the store could not be reached. */
async function patiently<T>(ask: () => Promise<T>): Promise<{ readonly asked: number; readonly answer: T }> {
  for (let asked = 1; ; asked++) {
    try {
      return { asked, answer: await ask() };
    } catch (error) {
      if (!(error instanceof OrchdError) || error.code !== 'STORE_BUSY') throw error;
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
}
