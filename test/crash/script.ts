/**
 * The fixed workload: what a client does, one step after the other, each acknowledged in a file of its own
 * before the next begins. Every way a job can go is in it once.
 */
import fs from 'node:fs';
import { OrchdError } from '../../src/model/errors.ts';
import type { JobView } from '../../src/model/http/jobs.ts';
import type { SubmitRequest } from '../../src/model/submit.ts';
import type { Orchestrator } from '../../src/runtime/orchestrator.ts';
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

/** A job as the client was told of it. */
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

const RESTART: Step = { do: 'restart' };

const FIRST_CHAPTER: readonly Step[] = [
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
  // Still runs when the brain stops.
  submit('held', { hold: true, text: FILL }),
  { do: 'pass', ms: 50 },
];

const SECOND_CHAPTER: readonly Step[] = [
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
];

const THIRD_CHAPTER: readonly Step[] = [
  { do: 'cancel', label: 'later' },
  // Waits for two jobs on the one slot that it has left.
  submit('parts', { parts: 2, stateBytes: BIG }),
  wait('parts'),
  submit('big-2', { text: 'q'.repeat(BIG), ms: 4 }),
  wait('big-2'),
  INDEXED,
  CHECKPOINT,
];

/** Long enough for a purge to find a blob file unused twice; only steady time passes that fast. */
const PURGE: readonly Step[] = [
  { do: 'pass', ms: 6_100_000 },
  wait('sleeper'),
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

/** Waits until PURGE, over a restart: the body that it keeps is in a file to which nothing is added any more. */
const SLEEPER: readonly Step[] = [
  submit('sleeper', { parts: 0, waitMs: 6_050_000, stateBytes: BIG }),
  { do: 'pass', ms: 50 },
];

const EARLIER: readonly Step[] = [...FIRST_CHAPTER, RESTART, ...SECOND_CHAPTER];

/** In real time without the hours that a purge needs. */
export const SCRIPTS: Record<Pace, readonly Step[]> = {
  steady: [...EARLIER, ...SLEEPER, RESTART, ...THIRD_CHAPTER, ...PURGE, ...LAST],
  real: [...EARLIER, RESTART, ...THIRD_CHAPTER, ...LAST],
};

export interface Range {
  readonly from: number;
  readonly to: number;
}

/** A chapter is what one brain does: it begins with its start, and ends where the next one starts. */
export function chaptersOf(script: readonly Step[]): Range[] {
  const starts = [0, ...script.flatMap((step, at) => (step.do === 'restart' ? [at] : []))];
  return starts.map((from, chapter) => ({ from, to: starts[chapter + 1] ?? script.length }));
}

export interface Client {
  readonly acks: AppendFile;
  readonly now: () => number;
  readonly sleep: (ms: number) => Promise<void>;
  /** Starts a brain on the folder. */
  readonly begin: () => Promise<Orchestrator>;
  /** Acknowledgements of earlier chapters. */
  readonly earlier: readonly Ack[];
  readonly onAck?: (ack: Ack) => void;
}

/** Plays part of a script and stops the brain at its end. */
export async function play(client: Client, script: readonly Step[], { from, to }: Range): Promise<void> {
  let brain = script[from]?.do === 'restart' ? undefined : await client.begin();
  const ids = new Map<string, string>();
  for (const ack of client.earlier) if (ack.did === 'submit') ids.set(ack.label, ack.id);
  for (let at = from; at < to; at++) {
    const step = script[at] as Step;
    if (step.do === 'restart') {
      await brain?.stop();
      brain = await client.begin();
    }
    const told = await perform(step, brain as Orchestrator, client, ids);
    const ack = { step: at, at: client.now(), did: step.do, ...told } as Ack;
    client.acks.add(ack);
    client.onAck?.(ack);
  }
  await brain?.stop();
}

/** Does a step and returns what the client was told. */
async function perform(
  step: Step,
  brain: Orchestrator,
  client: Client,
  ids: Map<string, string>,
): Promise<object> {
  switch (step.do) {
    case 'restart':
      return {};
    case 'pass':
      await client.sleep(step.ms);
      return {};
    case 'checkpoint':
      await brain.checkpoint();
      return {};
    case 'submit': {
      const answer = await submitted(brain, step.request);
      ids.set(step.label, answer.id);
      return { label: step.label, ...answer };
    }
    default: {
      const job = await ordered(brain, step.do, ids.get(step.label) as string);
      return { label: step.label, job: ackedJob(job) };
    }
  }
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
