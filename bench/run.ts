/**
 * `npm run bench -- [--quick] [--only name,...] [--rounds N] [--json FILE]`: measures the numbers we publish, together
 * with the raw disk and the peers we compare with, in the same run. Benches that are compared run in turns, round by
 * round. BENCH_DIR sets the folder of the data, BENCH_PROF a folder for CPU profiles.
 */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { Bench, Options } from './kit/bench.ts';
import { makeDataFolder } from './kit/disk.ts';
import { machineFacts } from './kit/machine.ts';
import { now } from './kit/numbers.ts';
import { printReport, writeReport } from './kit/report.ts';
import { Results } from './kit/results.ts';
import { bench as affinity } from './suites/affinity.ts';
import { bench as agents } from './suites/agents.ts';
import { bench as batch } from './suites/batch.ts';
import { bench as big } from './suites/big.ts';
import { bench as cancel } from './suites/cancel.ts';
import { bench as commands } from './suites/commands.ts';
import { bench as consumers } from './suites/consumers.ts';
import { bench as cycle } from './suites/cycle.ts';
import { bench as gateway } from './suites/gateway.ts';
import { bench as governance } from './suites/governance.ts';
import { bench as heap } from './suites/heap.ts';
import { bench as http } from './suites/http.ts';
import { bench as latency } from './suites/latency.ts';
import { bench as longRun } from './suites/long-run.ts';
import { bench as mariadb } from './suites/mariadb.ts';
import { bench as mcp } from './suites/mcp.ts';
import { bench as modules } from './suites/modules.ts';
import { bench as money } from './suites/money.ts';
import { bench as peers } from './suites/peers.ts';
import { bench as pick } from './suites/pick.ts';
import { bench as placement } from './suites/placement.ts';
import { bench as pools } from './suites/pools.ts';
import { bench as raw } from './suites/raw.ts';
import { bench as relay } from './suites/relay.ts';
import { bench as replay } from './suites/replay.ts';
import { bench as restart } from './suites/restart.ts';
import { bench as schedules } from './suites/schedules.ts';
import { bench as spool } from './suites/spool.ts';
import { bench as spoolWaiting } from './suites/spool-waiting.ts';
import { bench as stall } from './suites/stall.ts';
import { bench as sticky } from './suites/sticky.ts';
import { bench as submit } from './suites/submit.ts';
import { bench as takeover } from './suites/takeover.ts';
import { bench as ttft } from './suites/ttft.ts';
import { bench as usage } from './suites/usage.ts';
import { bench as waitingRuns } from './suites/waiting-runs.ts';

const ALL: readonly Bench[] = [
  raw,
  submit,
  http,
  batch,
  relay,
  ttft,
  gateway,
  cancel,
  consumers,
  cycle,
  money,
  governance,
  pools,
  latency,
  modules,
  schedules,
  peers,
  agents,
  mcp,
  commands,
  affinity,
  spool,
  mariadb,
  pick,
  placement,
  sticky,
  heap,
  restart,
  waitingRuns,
  spoolWaiting,
  longRun,
  replay,
  stall,
  usage,
  takeover,
  big,
];
const RESULTS = join(import.meta.dirname, 'results');

interface Arguments {
  readonly quick: boolean;
  readonly only: readonly string[];
  readonly rounds: number;
  readonly json: string;
}

function readArguments(): Arguments {
  const { values } = parseArgs({
    options: {
      quick: { type: 'boolean', default: false },
      only: { type: 'string', default: '' },
      rounds: { type: 'string' },
      json: { type: 'string', default: join(RESULTS, 'latest.json') },
    },
  });
  const { quick, json } = values;
  const only = values.only.split(',').filter((name) => name !== '');
  const names = ALL.map(({ name }) => name);
  const unknown = only.filter((name) => !names.includes(name));
  if (unknown.length > 0) throw new Error(`no bench "${unknown.join(', ')}"; there are ${names.join(', ')}`);
  const rounds = Number(values.rounds ?? (quick ? 1 : 3));
  if (!Number.isInteger(rounds) || rounds < 1) throw new Error('--rounds must be a whole number from 1');
  return { quick, only, rounds, json };
}

/** Runs one bench. A failure is recorded in `failed` and does not stop the others. */
async function runOne(bench: Bench, options: Options, results: Results, failed: string[]): Promise<void> {
  const start = now();
  try {
    results.add(bench.name, await bench.run(options));
  } catch (error) {
    failed.push(`${bench.name}: ${(error as Error).message}`);
  }
  console.error(`bench: ${bench.name} took ${((now() - start) / 1000).toFixed(1)} s`);
}

async function runAll({ quick, only, rounds, json }: Arguments, folder: string): Promise<void> {
  const benches = ALL.filter(({ name }) => only.length === 0 || only.includes(name));
  const results = new Results();
  const failed: string[] = [];
  const start = now();
  const machine = machineFacts(folder);
  const run = (bench: Bench): Promise<void> =>
    runOne(bench, { quick, folder, named: only.includes(bench.name) }, results, failed);
  for (let round = 1; round <= rounds; round++) {
    for (const bench of benches) if (bench.rounds === 'every') await run(bench);
  }
  for (const bench of benches) if (bench.rounds === 'once') await run(bench);
  const about = { machine, quick, rounds, seconds: (now() - start) / 1000, failed };
  printReport(benches, results, about);
  writeReport(json, results, about);
  console.error(`bench: wrote ${json}`);
  if (failed.length > 0) process.exitCode = 1;
}

function main(): Promise<void> {
  let chosen: Arguments;
  try {
    chosen = readArguments();
  } catch (error) {
    console.error(`bench: ${(error as Error).message}`);
    process.exit(2);
  }
  const folder = makeDataFolder(RESULTS);
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130));
  return runAll(chosen, folder);
}

await main();
