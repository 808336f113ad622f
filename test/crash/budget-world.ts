/**
 * Fifty jobs at once on a hard budget for twenty, and a tree of jobs that draws on a budget of its own. What they have cost
 * is in the ledger of the executor, outside the brain.
 */
import type { EngineSettings } from '../../src/core/settings.ts';
import { OrchdError } from '../../src/model/errors.ts';
import type { LimitSpec } from '../../src/model/limit-records.ts';
import { isTerminal } from '../../src/model/states.ts';
import type { SubmitRequest } from '../../src/model/submit.ts';
import { Orchestrator } from '../../src/runtime/orchestrator.ts';
import type { Folders } from './folders.ts';
import { type LedgerLine, readLedger, type Work } from './ledger.ts';
import type { Played, World } from './world.ts';

const MAX_TOKENS = 10;
const PER_REQUEST = 5;
/** What one attempt may cost at most. */
const BOUND = MAX_TOKENS + PER_REQUEST;
const JOBS = 50;
export const BUDGET = 20 * BOUND;
const TREE_BUDGET = 6 * BOUND;
export const SLOTS = 60;

const LIMITS: readonly LimitSpec[] = [
  { scope: 'global', costBudget: BUDGET, hard: true },
  { scope: 'root:*', costBudget: TREE_BUDGET, hard: true },
  { scope: 'agent:*', running: 30 },
];

/** The settings of the brain: a token of an answer costs one micro-unit, and each execution five. */
export const ENGINE: Partial<EngineSettings> = {
  limits: LIMITS,
  prices: [{ model: '*', output: 1_000_000, request: PER_REQUEST }],
};

/** The scopes whose budgets are checked, and which jobs draw on them. */
const BUDGETS = [
  { scope: 'global', budget: BUDGET, has: (_: string): boolean => true },
  {
    scope: 'root:default/top',
    budget: TREE_BUDGET,
    has: (id: string): boolean => /^(top|left|right)/.test(id),
  },
] as const;

function requestOf(id: string, work: Work, parent?: string): SubmitRequest {
  // A hard budget takes no fields whose cost nobody can bound.
  const payload = { prompt: JSON.stringify(work), max_tokens: MAX_TOKENS };
  const child = parent === undefined ? {} : { parent_id: parent };
  return { job_id: id, type: 'inference', payload, ...child } as SubmitRequest;
}

/** Most tell what they used, some fail once, some tell nothing: then all that they held counts. */
function plainJob(n: number): SubmitRequest {
  const told = n % 10 === 9 ? {} : { tokens: n % (MAX_TOKENS + 1) };
  return requestOf(`j${n}`, { ms: 1 + (n % 5), ...(n % 7 === 3 && { fails: 1 }), ...told });
}

/** Submits everything, jobs and branches at once; what is refused for its cost, or comes too late, is left out. */
export async function submitAll(brain: Orchestrator): Promise<void> {
  const submit = (request: SubmitRequest): Promise<unknown> =>
    brain.submit(request).catch((error: unknown) => {
      const reason = error instanceof OrchdError ? error.details.reason : undefined;
      if (reason !== 'cost_budget' && reason !== 'parent_ended') throw error;
    });
  const branch = async (name: string): Promise<void> => {
    await submit(requestOf(name, { ms: 40, tokens: 3 }, 'top'));
    const leaves = Array.from({ length: 6 }, (_, n) => requestOf(`${name}${n}`, { ms: 2, tokens: n }, name));
    await Promise.all(leaves.map(submit));
  };
  const tree = async (): Promise<void> => {
    await submit(requestOf('top', { ms: 80, tokens: 1 }));
    await Promise.all([branch('left'), branch('right')]);
  };
  await Promise.all([tree(), ...Array.from({ length: JOBS }, (_, n) => submit(plainJob(n)))]);
}

/** Waits until no job is left that could run. */
async function untilEnded(brain: Orchestrator, sleep: (ms: number) => Promise<void>): Promise<void> {
  const { jobs } = Orchestrator.engineOf(brain).state;
  while ([...jobs.values()].some(({ job, open }) => !isTerminal(job.state) || open)) await sleep(20);
}

const jobOf = (token: string): string => token.slice(0, token.lastIndexOf(':'));

function costOf({ outcome }: Extract<LedgerLine, { is: 'end' }>): number {
  if (outcome.ok === 'turned_away' || outcome.usage === undefined) return BOUND;
  return outcome.usage.output + PER_REQUEST;
}

/** What the executor has to say about a budget: its bill, and whether it was ever exceeded by what could still be billed. */
function billOf(lines: readonly LedgerLine[], has: (id: string) => boolean): { bill: number; most: number } {
  let [bill, open, most] = [0, 0, 0];
  for (const line of lines) {
    if ((line.is !== 'start' && line.is !== 'end') || !has(jobOf(line.token))) continue;
    if (line.is === 'start') open++;
    else {
      open--;
      bill += costOf(line);
    }
    most = Math.max(most, bill + open * BOUND);
  }
  return { bill, most };
}

/** What is wrong with the money, by the ledger of the executor; `brain` has ended all jobs. */
export function moneyProblems(brain: Orchestrator, lines: readonly LedgerLine[]): string[] {
  const { queue, state } = Orchestrator.engineOf(brain);
  return BUDGETS.flatMap(({ scope, budget, has }) => {
    const { bill, most } = billOf(lines, has);
    const gate = queue.gates.find(scope, 0);
    const stored = state.tables.spent.get(scope)?.cost ?? 0;
    const problems: string[] = [];
    if (most > budget) problems.push(`${scope}: ${most} of ${budget} could be billed`);
    if (gate?.reserved !== 0) problems.push(`${scope}: ${gate?.reserved} are still reserved`);
    if (gate?.settled !== bill) problems.push(`${scope}: ${gate?.settled} are settled, ${bill} were billed`);
    if (stored !== bill) problems.push(`${scope}: ${stored} are stored, ${bill} were billed`);
    return problems;
  });
}

/** How many executions were started. */
const startsIn = ({ ledger }: Folders): number =>
  readLedger(ledger).filter(({ is }) => is === 'start').length;

/** The client asks for everything, again after a death, and all jobs come to their end. */
async function play(brain: Orchestrator, { sleep }: Played): Promise<void> {
  await submitAll(brain);
  await untilEnded(brain, sleep);
}

export const budget: World = {
  options: () => ({ ledger: { slots: SLOTS }, engine: ENGINE }),
  play,
  done: startsIn,
  atLeast: 20,
  problems: (brain, { ledger }) => moneyProblems(brain, readLedger(ledger)),
};
