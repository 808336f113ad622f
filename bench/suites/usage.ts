/** The longest stall of the event loop while the usage of a month with a million attempts is asked for. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { fillLedger } from '../../test/fakes/many-charges.ts';
import type { Bench, Row, Values } from '../kit/bench.ts';
import { openBrain } from '../kit/brain.ts';
import { inChild } from '../kit/child.ts';
import { watchTurns } from '../kit/longest-turn.ts';
import { now, sleep } from '../kit/numbers.ts';

const KEYS = [[], ['model'], ['principal', 'model'], ['session'], ['day', 'principal']] as const;

interface Args {
  readonly folder: string;
  readonly charges: number;
}

export async function measure({ folder, charges }: Args): Promise<Values> {
  await (await openBrain(folder, [])).orchestrator.stop();
  const { cost } = fillLedger(folder, charges, Date.now());
  const { orchestrator } = await openBrain(folder, []);
  const from = new Date(Date.now() - 31 * 86_400_000).toISOString();
  await sleep(200);
  const values: Record<string, number> = {};
  const longestTurn = watchTurns();
  for (const by of KEYS) {
    const start = now();
    const { sums } = await orchestrator.reads.usage.sums({ from, by: [...by] }, undefined);
    const sum = sums.reduce((all, each) => all + each.cost, 0);
    if (sum !== cost) throw new Error(`by ${by.join()}: ${sum} instead of ${cost}`);
    values[`${by.join('+') || 'total'}Ms`] = now() - start;
  }
  const start = now();
  let listed = 0;
  for await (const page of orchestrator.reads.usage.ledger({ from }, undefined)) listed += page.length;
  values['ledgerMs'] = now() - start;
  const longest = longestTurn();
  await orchestrator.stop();
  return { ...values, listed, ...longest };
}

export const bench: Bench = {
  name: 'usage',
  title:
    'longest stall of the event loop while the usage of a month with a million attempts is summed and listed',
  rounds: 'once',
  async run(options) {
    const folder = join(options.folder, 'usage');
    const charges = options.quick ? 100_000 : 1_000_000;
    const values = await inChild({ measure, url: import.meta.url }, { folder, charges });
    rmSync(folder, { recursive: true });
    return [{ case: 'usage', values }] satisfies Row[];
  },
};
