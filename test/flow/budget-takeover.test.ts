/** Two brains on one database share a hard budget: the second one leads from the middle on. */
import assert from 'node:assert/strict';
import { OrchdError } from '../../src/model/errors.ts';
import { isTerminal } from '../../src/model/states.ts';
import { Orchestrator } from '../../src/runtime/orchestrator.ts';
import { BUDGET, ENGINE, moneyProblems, SLOTS, submitAll } from '../crash/budget-world.ts';
import { type LedgerLine, type Work, workOf } from '../crash/ledger.ts';
import { onStores, start, turns } from './flow-kit.ts';
import { Stage } from './stage.ts';

/** The limits and prices of the world as a configuration has them. */
const CONFIG = `
limits: ${JSON.stringify(ENGINE.limits?.map(({ scope, running, costBudget, hard }) => ({ scope, running, cost_budget: costBudget, hard })))}
prices: ${JSON.stringify(ENGINE.prices)}
`;

/** A provider that keeps its own list of what it started and billed. */
class BillingStage extends Stage {
  readonly lines: LedgerLine[] = [];
  readonly #works = new Map<string, Work>();

  constructor() {
    super({ slots: SLOTS });
    this.answer = ({ token, payloadText }) => {
      this.#works.set(token, workOf(payloadText));
      this.lines.push({ at: 0, is: 'start', token, plan: {} as never });
      return undefined;
    };
  }

  bill(token: string): void {
    const { tokens } = this.#works.get(token) as Work;
    const counts = { input: 0, cacheRead: 0, cacheWrite: 0, reasoning: 0, decodeMs: 1 };
    const usage = tokens === undefined ? {} : { usage: { ...counts, output: tokens } };
    const outcome = { ok: true, resultText: '1', ...usage } as const;
    this.lines.push({ at: 0, is: 'end', token, outcome });
    this.end(token, outcome);
  }
}

const unlessFenced = (error: unknown): void => {
  if (!(error instanceof OrchdError) || error.code !== 'FENCED') throw error;
};

onStores(
  'a hard budget is kept over a change of the leader, also by the branches of a tree, and all that was billed is settled',
  ['mariadb'],
  async (t, data) => {
    const stage = new BillingStage();
    t.after(() => stage.endAll());
    const first = await start(t, { data, backends: [stage], config: CONFIG });
    const asked = submitAll(first).catch(unlessFenced);
    await stage.startedCount(15);
    for (const token of stage.runningTokens.slice(0, 6)) stage.bill(token);
    await stage.startedCount(18);
    const running = stage.runningTokens.length;
    const second = await start(t, { data, backends: [stage], config: CONFIG });
    await asked;
    const gate = Orchestrator.engineOf(second).queue.gates.find('global', Date.now());
    assert.ok(gate && gate.running >= running, 'what runs under the first brain counts under the second');
    await submitAll(second);
    const { jobs } = Orchestrator.engineOf(second).state;
    const isLive = (): boolean => [...jobs.values()].some(({ job, open }) => !isTerminal(job.state) || open);
    while (isLive()) {
      const [token] = stage.runningTokens;
      if (token !== undefined) stage.bill(token);
      await turns(2);
    }
    assert.deepEqual(moneyProblems(second, stage.lines), []);
    assert.ok(stage.started.length >= 20 && BUDGET > 0);
    assert.equal(new Set(stage.started).size, stage.started.length);
  },
);
