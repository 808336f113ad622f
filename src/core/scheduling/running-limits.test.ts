import assert from 'node:assert/strict';
import { test } from 'node:test';
import { seededRandom } from '../../../test/crash/steady-env.ts';
import { SUCCESS } from '../../../test/fakes/engine-kit.ts';
import { MoneyKit } from '../../../test/fakes/money-kit.ts';
import type { LimitSpec } from '../../model/limit-records.ts';

const JOBS = 10_000;
const AGENTS = 60;
const SEATS = 6;

interface Numbers {
  readonly all: number;
  readonly agent: number;
  readonly seat: number;
}

const limitsOf = ({ all, agent, seat }: Numbers): LimitSpec[] => [
  { scope: 'global', running: all },
  { scope: 'agent:*', running: agent },
  { scope: 'seat:*', running: seat },
];

/** Counts the running jobs by scope, from the claims and ends that it is shown. */
class Counter {
  readonly #running = new Map<string, number>();
  #seen = 0;
  readonly order = new Map<string, number[]>();

  /** Every job that was claimed since the last call found room in all three scopes. */
  follow(kit: MoneyKit, { all, agent, seat }: Numbers): void {
    for (; this.#seen < kit.log.length; this.#seen++) {
      const { change } = kit.log[this.#seen] as (typeof kit.log)[number];
      if (change.kind !== 'attempt' || !change.after) continue;
      const { ask } = kit.job(change.after.job);
      const scopes = [
        ['all', all],
        [ask.spec.agent, agent],
        [change.after.backend, seat],
      ] as const;
      const isClaim = change.after.state === 'intended';
      const isEnd = change.after.state === 'ended';
      for (const [scope, limit] of scopes) {
        const running = (this.#running.get(scope) ?? 0) + (isClaim ? 1 : isEnd ? -1 : 0);
        this.#running.set(scope, running);
        if (isClaim) assert.ok(running <= limit, `${scope} runs ${running} of ${limit}`);
      }
      if (isClaim) this.order.set(ask.spec.agent, [...(this.order.get(ask.spec.agent) ?? []), ask.n]);
    }
  }
}

test('limits of all jobs, of each agent and of each seat hold at once over 10,000 jobs, also while they change', () => {
  const chance = seededRandom(5);
  const random = (): number => chance.next();
  let numbers: Numbers = { all: 20, agent: 1, seat: 5 };
  const kit = new MoneyKit(limitsOf(numbers));
  const counter = new Counter();
  for (let n = 0; n < SEATS; n++) kit.backend(`seat${n}`, { slots: 10 });
  const step = (): void => {
    const open = [...kit.engine.state.open.keys()];
    const token = open[Math.floor(random() * open.length)];
    if (token !== undefined) kit.step({ type: 'outcome', token, outcome: SUCCESS });
    if (kit.engine.queue.isUnfinished) kit.step({ type: 'tick' });
    counter.follow(kit, numbers);
  };
  for (let n = 0; n < JOBS; n++) {
    kit.ask(`j${n}`, 1, { agent: `agent${Math.floor(random() * AGENTS)}` });
    counter.follow(kit, numbers);
    if (random() < 0.3) step();
  }
  const others: Numbers[] = [
    { all: 7, agent: 1, seat: 5 },
    { all: 30, agent: 1, seat: 3 },
    { all: 20, agent: 1, seat: 0 },
    { all: 0, agent: 1, seat: 5 },
    { all: 20, agent: 1, seat: 5 },
  ];
  for (let ends = 0; kit.engine.state.counts.succeeded < JOBS; ends++) {
    if (ends % 700 === 699) {
      numbers = others[((ends + 1) / 700 - 1) % others.length] as Numbers;
      kit.setLimits(...limitsOf(numbers));
      counter.follow(kit, numbers);
    }
    step();
  }
  for (const [agent, order] of counter.order)
    assert.deepEqual(
      order,
      order.toSorted((a, b) => a - b),
      `the jobs of ${agent} keep their order`,
    );
  assert.equal(counter.order.size, AGENTS);
});
