/**
 * Files of jobs: `orchd submit --file` beside the bulk route with the same jobs, and `orchd results` beside a bare read of
 * the same rows from the history.
 */
import { spawn } from 'node:child_process';
import { openSync, readFileSync, rmSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { startServer } from '../../src/app/server.ts';
import { loadConfig } from '../../src/config/load.ts';
import { createLogger } from '../../src/kit/logger.ts';
import { DEFAULT_TENANT } from '../../src/model/records.ts';
import { SqliteHistory } from '../../src/stores/journal/history/sqlite.ts';
import type { Bench, Row, Values } from '../kit/bench.ts';
import { CONFIG, openBrain } from '../kit/brain.ts';
import { inChild } from '../kit/child.ts';
import { now, sleep } from '../kit/numbers.ts';
import { measure as bulk, WAITING_JOB } from '../load/bulk.ts';

const MAIN = join(import.meta.dirname, '../../src/cli/main.ts');
const BULK = { measure: bulk, url: new URL('../load/bulk.ts', import.meta.url).href };
const MIB = 2 ** 20;

interface Args {
  readonly folder: string;
  readonly jobs: number;
  readonly part: 'file' | 'bulk' | 'bulk, 4 connections' | 'results';
}

async function server(folder: string): Promise<{ url: string; stop(): Promise<void> }> {
  const config = loadConfig({ text: `${CONFIG}\nbackends:\n  demo: false\n` });
  const logger = createLogger({ write: () => undefined, now: () => Date.now(), level: 'warn' });
  return startServer({ config, data: folder, version: '0.0.0', logger, port: 0 });
}

interface Ran {
  readonly ms: number;
  /** The most memory that the process had. */
  readonly peakMib: number;
}

/** Runs the command line in a process of its own. */
async function orchd(words: readonly string[], url: string, output: string): Promise<Ran> {
  const start = now();
  const child = spawn(process.execPath, [MAIN, ...words], {
    env: { ...process.env, ORCHD_URL: url },
    stdio: ['ignore', openSync(output, 'w'), 'ignore'],
  });
  const exited = new Promise<number | null>((resolve) => {
    child.once('exit', resolve);
  });
  let code: number | null | undefined;
  let peakMib = 0;
  void exited.then((value) => {
    code = value;
  });
  while (code === undefined) {
    peakMib = Math.max(peakMib, peakOf(child.pid as number));
    await Promise.race([exited, sleep(50)]);
  }
  if (code !== 0) throw new Error(`orchd ${words[0]} ended with ${code}`);
  return { ms: now() - start, peakMib };
}

/** The time of the command with one line that is only checked: the start of the process, which bulk's figure lacks too. */
async function startOf(folder: string, url: string): Promise<number> {
  const file = `${folder}.one.jsonl`;
  writeFileSync(file, `${JSON.stringify(WAITING_JOB)}\n`);
  const { ms } = await orchd(['submit', '--dry-run', '--file', file], url, `${folder}.out`);
  rmSync(file);
  return ms;
}

function peakOf(pid: number): number {
  try {
    return Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1024;
  } catch {
    return 0;
  }
}

export async function measure({ folder, jobs, part }: Args): Promise<Values> {
  if (part === 'results') return measureResults(folder, jobs);
  const brain = await server(folder);
  const before = process.memoryUsage().rss;
  const cpu = process.cpuUsage();
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  let ran: Partial<Ran> & Pick<Ran, 'ms'>;
  if (part === 'file') {
    const file = `${folder}.jsonl`;
    writeFileSync(file, `${JSON.stringify(WAITING_JOB)}\n`.repeat(jobs));
    const startMs = await startOf(folder, brain.url);
    const whole = await orchd(['submit', '--file', file], brain.url, `${folder}.out`);
    ran = { ...whole, ms: whole.ms - startMs };
  } else {
    const connections = part === 'bulk' ? 1 : 4;
    ran = { ms: await inChild(BULK, { url: brain.url, batch: 'b', jobs, connections }) };
  }
  delay.disable();
  const brainMib = (process.memoryUsage().rss - before) / MIB;
  const { user, system } = process.cpuUsage(cpu);
  const serverUs = (user + system) / jobs;
  await brain.stop();
  const perSec = (jobs * 1000) / ran.ms;
  return { jobs, perSec, serverUs, cliMib: ran.peakMib, brainMib, maxMs: delay.max / 1e6 };
}

async function measureResults(folder: string, jobs: number): Promise<Values> {
  await fillWithEnded(folder, jobs);
  const brain = await server(folder);
  const before = process.memoryUsage().rss;
  const startMs = await startOf(folder, brain.url);
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  const { ms: wholeMs, peakMib } = await orchd(['results', 'ended'], brain.url, `${folder}.out`);
  delay.disable();
  const ms = wholeMs - startMs;
  const brainMib = (process.memoryUsage().rss - before) / MIB;
  await brain.stop();
  const bareMs = bareRead(folder, jobs);
  const perSec = (jobs * 1000) / ms;
  return {
    jobs,
    perSec,
    barePerSec: (jobs * 1000) / bareMs,
    cliMib: peakMib,
    brainMib,
    maxMs: delay.max / 1e6,
  };
}

/** Jobs of a batch that have run, with a result each. */
async function fillWithEnded(folder: string, jobs: number): Promise<void> {
  const types = { bench: (payload: unknown) => payload };
  const { orchestrator } = await openBrain(folder, [{ name: 'b', slots: 1000, types }]);
  const { payload } = WAITING_JOB;
  for (let from = 0; from < jobs; from += 1000) {
    await orchestrator.submitMany(
      Array.from({ length: 1000 }, (_, at) => ({
        type: 'bench',
        payload,
        batch: 'ended',
        job_id: `ended.${from + at + 1}`,
      })),
    );
  }
  while ((await orchestrator.batches.get('ended')).live_jobs > 0) await sleep(20);
  await orchestrator.stop();
}

/** Reads the same rows from the history in the same pages, and writes them as lines, without a server. */
function bareRead(folder: string, jobs: number): number {
  const history = new SqliteHistory(join(folder, 'history.sqlite'), 'read');
  history.open();
  const output = openSync(`${folder}.bare`, 'w');
  const query = { tenant: DEFAULT_TENANT, batch: 'ended', limit: 100, order: 'oldest first' } as const;
  const start = now();
  let count = 0;
  let after = -1;
  for (
    let page = history.list({ ...query, after });
    page.length > 0;
    page = history.list({ ...query, after })
  ) {
    writeSync(output, page.map((bundle) => `${JSON.stringify(bundle)}\n`).join(''));
    count += page.length;
    after = page.at(-1)?.ask.n ?? after;
  }
  const ms = now() - start;
  history.close();
  if (count !== jobs) throw new Error(`${count} rows, not ${jobs}`);
  return ms;
}

export const bench: Bench = {
  name: 'batch',
  title:
    'a file of jobs beside the bulk route with the same jobs; results beside a bare read of the same rows',
  rounds: 'every',
  async run(options) {
    const jobs = options.quick ? 10_000 : 100_000;
    const rows: Row[] = [];
    const run = async (name: string, args: Pick<Args, 'part' | 'jobs'>): Promise<void> => {
      const folder = join(options.folder, 'batch');
      const values = await inChild({ measure, url: import.meta.url }, { folder, ...args });
      rows.push({ case: name, values });
      for (const suffix of ['', '.jsonl', '.out', '.bare'])
        rmSync(folder + suffix, { recursive: true, force: true });
    };
    await run('batch bulk', { part: 'bulk', jobs });
    await run('batch file', { part: 'file', jobs });
    await run('batch bulk, 4 connections', { part: 'bulk, 4 connections', jobs });
    await run('batch file, a tenth', { part: 'file', jobs: jobs / 10 });
    await run('batch results', { part: 'results', jobs });
    return rows;
  },
};
