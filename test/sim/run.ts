/** `npm run sim -- --seeds N [--seed S]`: many worlds, or one again. */
import { parseArgs } from 'node:util';
import { simulate } from './simulate.ts';

const { values } = parseArgs({
  options: { seeds: { type: 'string' }, seed: { type: 'string' }, from: { type: 'string' } },
});

const first = Number(values.seed ?? values.from ?? 1);
const count = values.seed === undefined ? Number(values.seeds ?? 1000) : 1;
const started = performance.now();
const totals = { events: 0, crashes: 0, powerCuts: 0, jobs: 0, runs: 0 };
const faults: Record<string, number> = {};
let failures = 0;

for (let seed = first; seed < first + count; seed++) {
  try {
    const outcome = await simulate(seed);
    for (const key of Object.keys(totals) as (keyof typeof totals)[]) totals[key] += outcome[key];
    for (const [name, times] of Object.entries(outcome.faults)) faults[name] = (faults[name] ?? 0) + times;
    if (count === 1) console.log(JSON.stringify(outcome));
  } catch (error) {
    failures++;
    console.log(`seed ${seed}: ${count === 1 ? (error as Error).stack : (error as Error).message}`);
  }
  if ((seed - first) % 500 === 499) process.stderr.write(`${seed - first + 1} seeds\n`);
}

const seconds = ((performance.now() - started) / 1000).toFixed(1);
console.log(`${count} seeds, ${failures} failed, ${seconds} s: ${JSON.stringify({ ...totals, faults })}`);
process.exitCode = failures > 0 ? 1 : 0;
