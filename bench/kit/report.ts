/** The report of a run: text on standard output, JSON in a file. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Bench } from './bench.ts';
import type { Machine } from './machine.ts';
import type { Results } from './results.ts';
import { formatSummary, linesTable, table } from './table.ts';
import { verdicts } from './targets.ts';

export interface Run {
  readonly machine: Machine;
  readonly quick: boolean;
  readonly rounds: number;
  readonly seconds: number;
  readonly failed: readonly string[];
}

export function printReport(benches: readonly Bench[], results: Results, run: Run): void {
  const { machine } = run;
  const about = [
    `${machine.cores} cores (${machine.cpu}), ${machine.memoryGib} GiB, ${machine.kernel}, Node ${machine.node}`,
    `${machine.disk}, folder ${machine.folder}`,
    `${run.rounds} rounds, ${run.seconds.toFixed(0)} s, load before ${machine.load}; cells are median (min-max)`,
    'cpuUs: all threads, load generator and servers included; serverUs: of the servers alone, all their threads',
    'flushes: of the whole disk, per item',
    'ownSyncs: fdatasync and folder syncs of our main thread; otherCores: used by others or taken by the host meanwhile',
  ];
  console.log(about.join('\n'));
  if (run.quick) console.log('quick: small sizes and short windows, not for publishing');
  for (const { name, title } of benches) {
    const lines = results.lines(name);
    if (lines.length > 0) console.log(`\n${name}: ${title}\n${linesTable(lines)}`);
  }
  const targets = verdicts(results).map(({ name, want, aim, got, mark }) => [
    name,
    want,
    aim,
    formatSummary(got),
    mark,
  ]);
  if (targets.length > 0) console.log(`\ntargets\n${table([['', 'want', 'aim', 'got', ''], ...targets])}`);
  for (const failure of run.failed) console.log(`\nFAILED ${failure}`);
}

export function writeReport(path: string, results: Results, run: Run): void {
  mkdirSync(dirname(path), { recursive: true });
  const report = { ...run, targets: verdicts(results), benches: results };
  writeFileSync(path, `${JSON.stringify(report, undefined, 2)}\n`);
}
