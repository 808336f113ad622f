/** Jobs that run `true` as a command, in turns with GNU parallel on as many lines: jobs a second, and CPU of all processes. */
import { spawn } from 'node:child_process';
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { CommandBackend } from '../../src/backends/local/command/command.ts';
import { createOrchestrator } from '../../src/index.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { needDebian } from '../../test/fakes/debian.ts';
import type { Bench, Row, Values } from '../kit/bench.ts';
import { CONFIG } from '../kit/brain.ts';
import { inChild } from '../kit/child.ts';
import { cpuSecondsOf } from '../kit/meter.ts';
import { inFlight, now } from '../kit/numbers.ts';

/** The number of commands at a time, on both sides. */
const WIDTH = 8;
/** Enough waiting jobs that a slot never waits for a submit. */
const IN_FLIGHT = 4 * WIDTH;
const WARM_UP = 100;
/** Short turns, since the speed of a shared machine changes within seconds. */
const TURNS = 4;
const JOBS = 600;
const QUICK_JOBS = 200;

interface Args {
  readonly folder: string;
  readonly jobs: number;
}

const valuesOf = (jobs: number, startedAt: number, cpuSeconds: number): Values => {
  const seconds = (now() - startedAt) / 1000;
  return { perSec: jobs / seconds, cpuMs: (cpuSeconds * 1000) / jobs };
};

/** Brain, keeper, wrappers and commands. */
export async function measure({ folder, jobs }: Args): Promise<Values> {
  const types = { nothing: { argv: ['true'] } };
  const backend = new CommandBackend(realEnv(), {
    name: 'commands',
    folder: join(folder, 'commands'),
    slots: WIDTH,
    types,
  });
  const orchestrator = await createOrchestrator({
    data: join(folder, 'data'),
    backends: [backend],
    config: CONFIG,
  });
  const one = async (): Promise<void> => {
    const { job_id } = await orchestrator.submit({ type: 'nothing', payload: {} });
    const { state } = await orchestrator.wait(job_id);
    if (state !== 'succeeded') throw new Error(`a job ended as ${state}`);
  };
  await inFlight(WARM_UP, IN_FLIGHT, one);
  const before = cpuSecondsOf([process.pid]);
  const startedAt = now();
  await inFlight(jobs, IN_FLIGHT, one);
  const values = valuesOf(jobs, startedAt, cpuSecondsOf([process.pid]) - before);
  await orchestrator.stop();
  return values;
}

/** The perl process and its children. */
async function parallel(program: string, jobs: number): Promise<Values> {
  const before = cpuSecondsOf([process.pid]);
  const startedAt = now();
  const child = spawn(program, ['--will-cite', `-j${WIDTH}`], { stdio: ['pipe', 'ignore', 'inherit'] });
  child.stdin.end('true\n'.repeat(jobs));
  await new Promise<void>((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', (code) => (code === 0 ? resolve() : reject(new Error(`parallel ended with ${code}`))));
  });
  return valuesOf(jobs, startedAt, cpuSecondsOf([process.pid]) - before);
}

export const bench: Bench = {
  name: 'commands',
  title:
    '`true` as a command, 8 at a time: ours with every job, its output and its end durable, and GNU parallel',
  rounds: 'every',
  async run({ folder, quick }) {
    const program = await needDebian('parallel').catch((error: Error) => error);
    const own = join(folder, 'commands');
    mkdirSync(own);
    const ours = (name: string, jobs: number): Promise<Values> =>
      inChild({ measure, url: import.meta.url }, { folder: join(own, name), jobs });
    try {
      // A keeper that runs from source strips its types only where no keeper did so before.
      await ours('first', 1);
      const rows: Row[] = [];
      for (let turn = 1; turn <= TURNS; turn++) {
        const jobs = quick ? QUICK_JOBS : JOBS;
        rows.push({ case: 'commands orchd', values: await ours(`turn-${turn}`, jobs) });
        const values =
          program instanceof Error
            ? { note: `peer skipped: ${program.message}` }
            : await parallel(program, jobs);
        rows.push({ case: 'commands parallel', values });
      }
      return rows;
    } finally {
      rmSync(own, { recursive: true, force: true });
    }
  },
};
