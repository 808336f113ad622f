/**
 * The fixed workload: what a client does, one step after the other, each acknowledged in a file of its own
 * before the next begins. Every way a job can go is in it once.
 */
import fs from 'node:fs';
import { OrchdError } from '../../src/model/errors.ts';
import type { SubmitRequest } from '../../src/model/submit.ts';
import type { Orchestrator } from '../../src/runtime/orchestrator.ts';
import type { JobView } from '../../src/runtime/view.ts';
import { AppendFile, readLines } from './append-file.ts';
import type { Pace } from './brain.ts';
import type { Work } from './ledger.ts';

export type Step =
  | { readonly do: 'submit'; readonly label: string; readonly request: SubmitRequest }
  | { readonly do: 'wait' | 'cancel' | 'redrive'; readonly label: string }
  | { readonly do: 'pass'; readonly ms: number }
  | { readonly do: 'checkpoint' }
  | { readonly do: 'restart' };

export type Ack = { readonly step: number; readonly at: number } & (
  | {
      readonly did: 'submit';
      readonly label: string;
      readonly id: string;
      readonly duplicateOf?: string;
      /** Set where the answer was a refusal. */
      readonly refused?: string;
      /** Asked once more because the first answer was lost in a crash. */
      readonly again?: true;
    }
  | { readonly did: 'wait' | 'cancel' | 'redrive'; readonly label: string; readonly job: AckedJob }
  | { readonly did: 'pass' | 'checkpoint' | 'restart' }
);

/** What the client was told of a job. */
export interface AckedJob {
  readonly id: string;
  readonly state: string;
  readonly attempt: number;
  readonly result?: unknown;
}

/** Beyond what a record holds: becomes a body of its own. */
const BIG = 6000;
/** Just within it: a few of them fill a segment. */
const FILL = 'f'.repeat(3600);

const submit = (label: string, work: Work, more: Partial<SubmitRequest> = {}): Step => ({
  do: 'submit',
  label,
  request: { job_id: label, type: 'work', payload: work, ...more } as SubmitRequest,
});
/** With an id that the brain makes. */
const submitUnnamed = (label: string, work: Work, more: Partial<SubmitRequest> = {}): Step => ({
  do: 'submit',
  label,
  request: { type: 'work', payload: work, ...more } as SubmitRequest,
});
const wait = (label: string): Step => ({ do: 'wait', label });
/** Ended jobs gather for a while before they go to the history and leave memory. */
const INDEXED: Step = { do: 'pass', ms: 300 };
const CHECKPOINT: Step = { do: 'checkpoint' };

/** Far beyond anything the workload does, and a caller's own not_before. */
const FAR_AWAY = 4_000_000_000_000;

const FIRST_HALF: readonly Step[] = [
  submit('small', {}),
  wait('small'),
  submit('big', { text: 'p'.repeat(BIG), resultBytes: BIG }),
  wait('big'),
  submitUnnamed('keyed', { ms: 20 }, { key: 'k1' }),
  submitUnnamed('keyed-again', { ms: 20 }, { key: 'k1' }),
  wait('keyed'),
  submit('flaky', { ms: 3, fails: 1, text: FILL }),
  wait('flaky'),
  CHECKPOINT,
  submit('held', { hold: true, text: FILL }),
  { do: 'pass', ms: 5 },
  { do: 'cancel', label: 'held' },
  wait('held'),
  submit('doomed', { fails: 3, text: FILL }, { key: 'k2', max_tries: 2 }),
  wait('doomed'),
  INDEXED,
  submit('turned-away', { busy: 1, text: FILL }),
  wait('turned-away'),
  { do: 'redrive', label: 'doomed' },
  wait('doomed'),
  submitUnnamed('final', { fails: 9, final: true }, { key: 'k3' }),
  wait('final'),
  submitUnnamed('final-again', {}, { key: 'k3' }),
  CHECKPOINT,
  submit('later', { text: FILL }, { not_before: FAR_AWAY }),
  { do: 'cancel', label: 'later' },
  { do: 'restart' },
  submit('big-2', { text: 'q'.repeat(BIG), ms: 4 }),
  wait('big-2'),
  INDEXED,
  CHECKPOINT,
];

/** Long enough for a purge to find a blob file unused twice; only steady time passes that fast. */
const PURGE: readonly Step[] = [
  { do: 'pass', ms: 6_100_000 },
  // Its first life is purged by now: the same id is a new job.
  submit('small', { ms: 1, text: FILL }),
  wait('small'),
];

const LAST: readonly Step[] = [
  INDEXED,
  CHECKPOINT,
  // Nothing has changed since: it has nothing to do.
  CHECKPOINT,
];

/** In real time without the hours that a purge needs. */
export const SCRIPTS: Record<Pace, readonly Step[]> = {
  steady: [...FIRST_HALF, ...PURGE, ...LAST],
  real: [...FIRST_HALF, ...LAST],
};

export interface Client {
  readonly acks: AppendFile;
  readonly now: () => number;
  readonly sleep: (ms: number) => Promise<void>;
  /** Stops the brain and starts another on the same folder. */
  readonly restart: () => Promise<Orchestrator>;
  readonly onAck?: (ack: Ack) => void;
}

export async function play(
  first: Orchestrator,
  client: Client,
  script: readonly Step[],
): Promise<Orchestrator> {
  let orchestrator = first;
  const ids = new Map<string, string>();
  for (const [at, step] of script.entries()) {
    const ack = (body: object): void => {
      const line = { step: at, at: client.now(), did: step.do, ...body } as Ack;
      client.acks.add(line);
      client.onAck?.(line);
    };
    if (step.do === 'restart') {
      orchestrator = await client.restart();
      ack({});
    } else if (step.do === 'pass') {
      await client.sleep(step.ms);
      ack({});
    } else if (step.do === 'checkpoint') {
      await orchestrator.checkpoint();
      ack({});
    } else if (step.do === 'submit') {
      const answer = await submitted(orchestrator, step.request);
      ids.set(step.label, answer.id);
      ack({ label: step.label, ...answer });
    } else {
      const job = await ordered(orchestrator, step.do, ids.get(step.label) as string);
      ack({ label: step.label, job: ackedJob(job) });
    }
  }
  return orchestrator;
}

/** A refusal is an answer too. */
export async function submitted(
  orchestrator: Orchestrator,
  request: SubmitRequest,
): Promise<{ id: string; duplicateOf?: string; refused?: string }> {
  try {
    const { job_id: id, duplicate_of: duplicateOf } = await orchestrator.submit(request);
    return duplicateOf === undefined ? { id } : { id, duplicateOf };
  } catch (error) {
    if (!(error instanceof OrchdError) || error.code !== 'ADMISSION_REJECT') throw error;
    return { id: '', refused: error.details.reason ?? error.code };
  }
}

function ordered(
  orchestrator: Orchestrator,
  order: 'wait' | 'cancel' | 'redrive',
  id: string,
): Promise<JobView> {
  switch (order) {
    case 'wait':
      return orchestrator.wait(id);
    case 'cancel':
      return orchestrator.cancel(id);
    case 'redrive':
      return orchestrator.redrive(id);
  }
}

export function ackedJob(job: JobView): AckedJob {
  const attempt = job.attempts.at(-1)?.attempt ?? 0;
  const base = { id: job.job_id, state: job.state, attempt };
  return job.result === undefined ? base : { ...base, result: job.result };
}

export const readAcks = (path: string): Ack[] => (fs.existsSync(path) ? readLines<Ack>(path) : []);

export const openAcks = (path: string): AppendFile => new AppendFile(path);
