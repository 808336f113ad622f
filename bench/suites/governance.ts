/** What governance costs: a decision of the gate with 200 rules, and full cycles with these rules beside none. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { GovernanceGate } from '../../src/core/governance/gate.ts';
import type { GovernedJob } from '../../src/core/governance/verdicts.ts';
import { DEFAULT_POLICY, type GovernanceRule } from '../../src/model/governance.ts';
import { type Bench, type Row, type Values, windowOf } from '../kit/bench.ts';
import { inChild } from '../kit/child.ts';
import { now } from '../kit/numbers.ts';
import { type BesideArgs, besidePlain } from '../systems/beside.ts';

const RULES = 200;
/** None of them matches: every rule is looked at. */
const rules: readonly GovernanceRule[] = Array.from({ length: RULES }, (_, n) => ({
  name: `rule-${n}`,
  effect: 'deny',
  tools: [`tool-${n}`, 'other-*'],
  agents: [`agent-${n}`],
}));

const CONFIG = `
governance:
  rules: ${JSON.stringify(rules)}
`;

interface Measured {
  readonly gate: Values;
  readonly plain: Values;
  readonly other: Values;
}

export async function measure(args: BesideArgs): Promise<Measured> {
  const gate = measureGate();
  return { gate, ...(await besidePlain(args, CONFIG)) };
}

/** Agents and tools of a busy server: few enough that most verdicts were given before. */
const CALLERS = 40;
const TOOLS = 25;
const DECISIONS = 1_000_000;

function measureGate(): Values {
  const gate = new GovernanceGate({ ...DEFAULT_POLICY, rules });
  const jobs: GovernedJob[] = Array.from({ length: CALLERS * TOOLS }, (_, n) => ({
    type: 'tool',
    tenant: 'default',
    model: undefined,
    agents: [`top-${n % 7}`, `caller-${n % CALLERS}`],
    tool: { name: `call-${n % TOOLS}`, category: 'read', isApproved: false },
  }));
  const decide = (count: number): number => {
    const start = now();
    for (let n = 0; n < count; n++) gate.judge('NORMAL', jobs[n % jobs.length] as GovernedJob);
    return ((now() - start) * 1000) / count;
  };
  const firstUs = decide(jobs.length);
  decide(DECISIONS);
  return { firstUs, decisionUs: decide(DECISIONS) };
}

export const bench: Bench = {
  name: 'governance',
  title: 'a decision of the gate with 200 rules, and full cycles with them and without (64 in flight)',
  rounds: 'every',
  async run(options) {
    const folder = join(options.folder, 'governance');
    const args = { folder, inFlight: 64, ...windowOf(options) };
    const { gate, plain, other } = await inChild({ measure, url: import.meta.url }, args);
    rmSync(folder, { recursive: true });
    const rows: Row[] = [
      { case: 'gate, 200 rules', values: gate },
      { case: 'cycle@64, no rules', values: plain },
      { case: 'cycle@64, 200 rules', values: other },
    ];
    return rows;
  },
};
