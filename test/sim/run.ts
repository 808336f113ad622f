/** `npm run sim`: many worlds, or one again. */
import { parseArgs } from 'node:util';
import { simulateAgents } from './agents/simulate.ts';
import { simulateGateway } from './gateway/simulate.ts';
import { simulate } from './simulate.ts';

const USAGE = `usage: npm run sim -- [--seeds N] [--from N]   N worlds, 1000 by default, from a seed on
       npm run sim -- --seed N                 one world again
       npm run sim -- --gateway ...            worlds with a gateway and a provider that bills
       npm run sim -- --agents ...             worlds with runs of agents
       npm run sim -- --stop ...               no further world after one that failed`;

interface Worlds {
  readonly first: number;
  readonly count: number;
  readonly world: typeof simulate;
  /** No further world after one that failed. */
  readonly stops: boolean;
}

/** Which worlds; a wrong call is told in a line, and ends here. */
function asked(): Worlds {
  try {
    const { values } = parseArgs({
      options: {
        seeds: { type: 'string' },
        seed: { type: 'string' },
        from: { type: 'string' },
        gateway: { type: 'boolean', default: false },
        agents: { type: 'boolean', default: false },
        stop: { type: 'boolean', default: false },
      },
    });
    const world = values.agents ? simulateAgents : values.gateway ? simulateGateway : simulate;
    const { stop: stops } = values;
    const whole = (name: 'seeds' | 'seed' | 'from', otherwise: number): number => {
      const text = values[name] ?? String(otherwise);
      if (!/^[1-9]\d{0,14}$/.test(text))
        throw new Error(`--${name} needs a whole number from 1, not "${text}"`);
      return Number(text);
    };
    if (values.seed !== undefined) return { first: whole('seed', 1), count: 1, world, stops };
    return { first: whole('from', 1), count: whole('seeds', 1000), world, stops };
  } catch (error) {
    // Node's message explains at length how to pass such a word on.
    console.error(`sim: ${(error as Error).message.split('. ')[0]}.\n${USAGE}`);
    process.exit(2);
  }
}

const { first, count, world, stops } = asked();
const started = performance.now();
const totals = { events: 0, crashes: 0, powerCuts: 0, jobs: 0, runs: 0 };
const faults: Record<string, number> = {};
let failures = 0;

for (let seed = first; seed < first + count && !(stops && failures > 0); seed++) {
  try {
    const outcome = await world(seed);
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
