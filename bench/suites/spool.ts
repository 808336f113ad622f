/**
 * The spool on a real disk. Four processes, each with an agent and 16 jobs in flight, in turns with four bare processes that
 * do one job at a time; the syncs of ours are counted. Jobs are dropped by the same processes first: their drop counts.
 */
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { functionHandler } from '../../src/daemons/spool/handler.ts';
import { Actor } from '../../src/spool/actor.ts';
import { submitJob } from '../../src/spool/submit.ts';
import { type Bench, BODY, type Row, type Values } from '../kit/bench.ts';
import { inChild } from '../kit/child.ts';
import { inFlight, sharedNow, sleep } from '../kit/numbers.ts';
import { BareSpool } from '../systems/bare-spool.ts';
import { type BenchSpool, benchJobName, openBenchSpool } from '../systems/orchd-spool.ts';

const PROCESSES = 4;
const IN_FLIGHT = 16;
const WARM_UP = 200;
const TURNS = 3;
/** An agent that has ended no job for so long has ended its last. */
const QUIET_MS = 1500;
/** How often a process looks whether the others are warm too. */
const BARRIER_POLL_MS = 5;
const PROMPT = { prompt: BODY };
const HANDLER = functionHandler(() => ({ ok: true }));

interface Args {
  readonly system: 'orchd' | 'bare';
  readonly step: 'drop' | 'run';
  readonly folder: string;
  readonly which: number;
  /** The number of jobs of each process. */
  readonly jobs: number;
}

interface Part {
  readonly jobs: number;
  /** By the clock that all processes share. */
  readonly startedAt: number;
  readonly endedAt: number;
  readonly fileSyncs: number;
  readonly folderSyncs: number;
  readonly cpuMs: number;
}

type Work = Omit<Part, 'startedAt' | 'cpuMs'>;

export async function measure(args: Args): Promise<Part> {
  const { system, folder, which } = args;
  const work = system === 'orchd' ? orchdWork : bareWork;
  const warm = `${folder}-warm-${args.step}-${which}`;
  for (const step of ['drop', 'run'] as const)
    await work({ ...args, folder: warm, which: 0, jobs: WARM_UP, step });
  await allAreWarm(args);
  const startedAt = sharedNow();
  const cpu = process.cpuUsage();
  const done = await work(args);
  const { user, system: kernel } = process.cpuUsage(cpu);
  return { ...done, startedAt, cpuMs: (user + kernel) / 1000 };
}

/** The processes begin together: each makes a file when it is warm, and waits for those of the others. */
async function allAreWarm({ folder, step, which }: Args): Promise<void> {
  const fileOf = (each: number): string => join(folder, `${step}-${each}`);
  mkdirSync(folder, { recursive: true });
  writeFileSync(fileOf(which), '');
  const others = Array.from({ length: PROCESSES }, (_, each) => fileOf(each));
  while (!others.every((file) => existsSync(file))) await sleep(BARRIER_POLL_MS);
}

const namesOf = ({ which, jobs }: Args): string[] =>
  Array.from({ length: jobs }, (_, at) => benchJobName(at * PROCESSES + which));

async function bareWork(args: Args): Promise<Work> {
  await openBenchSpool(args.folder);
  const bare = new BareSpool(args.folder, `bare-${args.which}`);
  const prompt = `${JSON.stringify(PROMPT)}\n`;
  const names = namesOf(args);
  for (const name of names) args.step === 'drop' ? bare.drop({ name, prompt }) : bare.run(name);
  return { jobs: names.length, endedAt: sharedNow(), fileSyncs: 0, folderSyncs: 0 };
}

async function orchdWork(args: Args): Promise<Work> {
  const bench = await openBenchSpool(args.folder);
  const before = { ...bench.counts };
  const { jobs, endedAt } = args.step === 'drop' ? await dropAll(bench, args) : await runAll(bench);
  const { fileSyncs, folderSyncs } = bench.counts;
  return {
    jobs,
    endedAt,
    fileSyncs: fileSyncs - before.fileSyncs,
    folderSyncs: folderSyncs - before.folderSyncs,
  };
}

async function dropAll({ spool }: BenchSpool, args: Args): Promise<{ jobs: number; endedAt: number }> {
  const person = await Actor.open(spool, 'person');
  const names = namesOf(args);
  await inFlight(names.length, IN_FLIGHT, (at) =>
    submitJob(person, { name: names[at] as string, prompt: PROMPT }),
  );
  const endedAt = sharedNow();
  await person.close();
  return { jobs: names.length, endedAt };
}

async function runAll({ agent: makeAgent, ended }: BenchSpool): Promise<{ jobs: number; endedAt: number }> {
  const agent = makeAgent(HANDLER, IN_FLIGHT);
  ended.lastAt = sharedNow();
  await agent.start();
  while (sharedNow() - ended.lastAt < QUIET_MS) await sleep(50);
  await agent.stop();
  return { jobs: ended.jobs, endedAt: ended.lastAt };
}

interface Together extends Omit<Work, 'endedAt'> {
  readonly seconds: number;
  readonly cpuMs: number;
}

/** One step in all processes at once. */
async function together(args: Omit<Args, 'which'>): Promise<Together> {
  const parts = await Promise.all(
    Array.from({ length: PROCESSES }, (_, which) =>
      inChild({ measure, url: import.meta.url }, { ...args, which }),
    ),
  );
  const sum = (key: keyof Part): number => parts.reduce((total, part) => total + part[key], 0);
  if (sum('jobs') !== args.jobs * PROCESSES) throw new Error(`${sum('jobs')} jobs were done`);
  const startedAt = Math.min(...parts.map((part) => part.startedAt));
  const endedAt = Math.max(...parts.map((part) => part.endedAt));
  return {
    jobs: sum('jobs'),
    seconds: (endedAt - startedAt) / 1000,
    fileSyncs: sum('fileSyncs'),
    folderSyncs: sum('folderSyncs'),
    cpuMs: sum('cpuMs'),
  };
}

async function turn(system: Args['system'], folder: string, jobs: number): Promise<Values> {
  const drop = await together({ system, step: 'drop', folder, jobs });
  const run = await together({ system, step: 'run', folder, jobs });
  const all = run.jobs;
  return {
    perSec: all / (drop.seconds + run.seconds),
    dropPerSec: all / drop.seconds,
    runPerSec: all / run.seconds,
    cpuMs: (drop.cpuMs + run.cpuMs) / all,
    ...(system === 'orchd' && {
      fileSyncs: (drop.fileSyncs + run.fileSyncs) / all,
      folderSyncs: (drop.folderSyncs + run.folderSyncs) / all,
    }),
  };
}

export const bench: Bench = {
  name: 'spool',
  title: 'a spool: 4 agents with 16 jobs in flight each, and 4 bare processes with one',
  rounds: 'every',
  async run({ folder, quick }) {
    const jobs = quick ? 200 : 500;
    const own = join(folder, 'spool');
    const rows: Row[] = [];
    for (let at = 1; at <= (quick ? 1 : TURNS); at++)
      for (const system of ['orchd', 'bare'] as const)
        rows.push({
          case: `spool ${system}`,
          values: await turn(system, join(own, `${system}-${at}`), jobs),
        });
    // Not after each turn: ext4 makes files more slowly where many were removed a short time ago.
    rmSync(own, { recursive: true });
    return rows;
  },
};
