/**
 * 100,000 runs of agents that wait: the memory of each, and the time a new process takes to open a folder with them, beside
 * one with as many queued jobs. Each run waits for a call of a model that nothing runs, which is a queued job below it; both
 * are counted. Such calls without a run, and jobs that wait for an answer with nothing below them, are measured too.
 */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import type { FunctionContext } from '../../src/backends/local/functions.ts';
import type { JobEntry } from '../../src/core/state/job-entry.ts';
import { KEPT_STATE_CHARS } from '../../src/runtime/wait-states.ts';
import { engineOf } from '../../test/fakes/engine-of.ts';
import { type Bench, BODY, type Row, type Values } from '../kit/bench.ts';
import { type Brain, fillWithWaiting, openBrain } from '../kit/brain.ts';
import { inChild } from '../kit/child.ts';
import { folderBytes } from '../kit/disk.ts';
import { settledMemory } from '../kit/memory.ts';
import { median, now, sleep } from '../kit/numbers.ts';

const KINDS = ['runs', 'calls', 'jobs', 'queued jobs'] as const;
type Kind = (typeof KINDS)[number];

interface Args {
  readonly folder: string;
  readonly kind: Kind;
  readonly count: number;
  readonly step: 'fill' | 'open' | 'checkpoint';
}

const AGENTS = `
agents:
  - {name: clerk, model: scripted, instructions: "You are a clerk.", tools: [current_time]}
`;

/** A backend that offers the model of the agent, and runs no calls of it. */
const MODEL = { name: 'model', slots: 1, models: ['scripted'], types: { other: () => null } };

/** A backend whose jobs wait for an answer. */
const WAITER = {
  name: 'waiter',
  slots: 64,
  repeatable: true,
  types: { waits: (_: unknown, context: FunctionContext) => context.wait({ state: { body: BODY } }) },
};

const open = (folder: string): Promise<Brain> => openBrain(folder, [MODEL, WAITER], AGENTS);

const RUN = { type: 'agent', payload: { agent: 'clerk', input: BODY } };

/** A request as a run makes it for its call of the model. */
async function callOf(folder: string): Promise<object> {
  const { orchestrator } = await open(folder);
  const { job_id: run } = await orchestrator.submit(RUN);
  const { jobs } = engineOf(orchestrator).state;
  while (!jobs.has(`${run}.1`)) await sleep(5);
  const { payload, spec } = (jobs.get(`${run}.1`) as JobEntry).ask;
  await orchestrator.stop();
  rmSync(folder, { recursive: true });
  const { type, model, tags, after_output, max_tries } = spec;
  return { type, model, tags, after_output, max_tries, payload: JSON.parse(payload as string) };
}

/** The ids of calls are as long as those that runs make. */
const callId = (n: number): string => `${String(n).padStart(32, '0')}.1`;

async function fillWithCalls({ orchestrator }: Brain, folder: string, count: number): Promise<void> {
  const request = await callOf(`${folder}-call`);
  for (let done = 0; done < count; done += 1000) {
    const some = Array.from({ length: 1000 }, (_, n) => ({ ...request, job_id: callId(done + n) }));
    await orchestrator.submitMany(some);
  }
}

async function fill(brain: Brain, { folder, kind }: Args, count: number): Promise<void> {
  const { orchestrator } = brain;
  if (kind === 'queued jobs') return fillWithWaiting(orchestrator, count);
  if (kind === 'calls') return fillWithCalls(brain, folder, count);
  const { counts, waitStates } = engineOf(orchestrator).state;
  // As many at a time as the queue of runs takes without growing long.
  for (let done = 0; done < count; done += 1000) {
    const some = Math.min(1000, count - done);
    const request = kind === 'runs' ? RUN : { type: 'waits', payload: null };
    await orchestrator.submitMany(Array.from({ length: some }, () => request));
    while (counts.waiting < done + some) await sleep(5);
  }
  while (waitStates.chars > KEPT_STATE_CHARS) await sleep(50);
}

export async function measure(args: Args): Promise<Values> {
  const { folder, kind, count, step } = args;
  // A brain on another folder loads everything that is loaded only once, before the first measurement.
  const warm = await open(`${folder}-warm`);
  await fill(warm, args, 1000);
  await warm.orchestrator.stop();
  rmSync(`${folder}-warm`, { recursive: true });
  const before = await settledMemory();
  const start = now();
  const cpu = process.cpuUsage();
  const brain = await open(folder);
  const openMs = now() - start;
  const { user, system } = process.cpuUsage(cpu);
  const openCpuMs = (user + system) / 1000;
  if (step === 'fill') await fill(brain, args, count);
  const after = await settledMemory();
  const { queued, waiting } = engineOf(brain.orchestrator).state.counts;
  const waits = kind === 'runs' || kind === 'jobs';
  const isComplete = queued === (kind === 'jobs' ? 0 : count) && waiting === (waits ? count : 0);
  if (!isComplete) throw new Error(`${queued} jobs are queued and ${waiting} wait`);
  if (step === 'checkpoint') await brain.orchestrator.checkpoint();
  await brain.orchestrator.stop();
  return { openMs, openCpuMs, heapBytes: (after.heapUsed - before.heapUsed) / count };
}

export const bench: Bench = {
  name: 'waiting-runs',
  title: 'runs of agents that wait for a queued call each, and as many queued jobs',
  rounds: 'once',
  async run({ folder, quick }) {
    const count = quick ? 10_000 : 100_000;
    const child = (kind: Kind, step: Args['step']): Promise<Values> => {
      const args = { folder: join(folder, kind.replace(' ', '-')), kind, count, step };
      return inChild({ measure, url: import.meta.url }, args, ['--expose-gc']);
    };
    const filled = new Map<Kind, Values>();
    for (const kind of KINDS) filled.set(kind, await child(kind, 'fill'));
    const fromLog = await openings(child, quick);
    for (const kind of KINDS) await child(kind, 'checkpoint');
    const fromCheckpoint = await openings(child, quick);
    const rows: Row[] = KINDS.map((kind) => {
      const path = join(folder, kind.replace(' ', '-'));
      const values = {
        heapBytes: filled.get(kind)?.['heapBytes'],
        reopenedBytes: fromCheckpoint.get(kind)?.heapBytes,
        logMs: fromLog.get(kind)?.openMs,
        logCpuMs: fromLog.get(kind)?.openCpuMs,
        checkpointMs: fromCheckpoint.get(kind)?.openMs,
        checkpointCpuMs: fromCheckpoint.get(kind)?.openCpuMs,
        folderMib: folderBytes(path) / 2 ** 20,
      };
      rmSync(path, { recursive: true });
      return { case: `waiting ${kind}`, values };
    });
    return rows;
  },
};

interface Opening {
  readonly openMs: number;
  readonly openCpuMs: number;
  readonly heapBytes: number;
}

/** The medians of some openings of each folder, by turns. */
async function openings(
  child: (kind: Kind, step: 'open') => Promise<Values>,
  quick: boolean,
): Promise<ReadonlyMap<Kind, Opening>> {
  const opened = new Map<Kind, Values[]>(KINDS.map((kind) => [kind, []]));
  for (let round = 0; round < (quick ? 1 : 5); round++)
    for (const kind of KINDS) opened.get(kind)?.push(await child(kind, 'open'));
  const medians = (kind: Kind): Opening => {
    const middle = (name: keyof Opening): number =>
      median((opened.get(kind) ?? []).map((values) => Number(values[name]))) ?? 0;
    return { openMs: middle('openMs'), openCpuMs: middle('openCpuMs'), heapBytes: middle('heapBytes') };
  };
  return new Map(KINDS.map((kind) => [kind, medians(kind)]));
}
