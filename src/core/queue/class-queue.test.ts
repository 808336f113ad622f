import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { makeEntry } from '../../../test/fakes/engine-kit.ts';
import type { JobEntry } from '../state/job-entry.ts';
import { ClassQueue } from './class-queue.ts';

/** A slow reference implementation of ClassQueue that searches plain lists. */
class NaiveQueue {
  jobs: JobEntry[] = [];
  readonly vtimes = new Map<string, number>();
  vnow = 0;

  of(agent: string): JobEntry[] {
    const own = this.jobs.filter(({ ask }) => ask.spec.agent === agent);
    return own.sort((a, b) => b.ask.spec.score - a.ask.spec.score || a.ask.n - b.ask.n);
  }

  get active(): string[] {
    return [...new Set(this.jobs.map(({ ask }) => ask.spec.agent))];
  }

  vtime(agent: string): number {
    return this.vtimes.get(agent) ?? 0;
  }

  add(entry: JobEntry): void {
    const { agent } = entry.ask.spec;
    if (this.of(agent).length === 0) this.vtimes.set(agent, Math.max(this.vtime(agent), this.vnow));
    this.jobs.push(entry);
  }

  remove(entry: JobEntry): void {
    this.jobs = this.jobs.filter((other) => other !== entry);
    if (this.jobs.length > 0) return;
    this.vtimes.clear();
    this.vnow = 0;
  }

  /** The jobs in the order in which they would be taken; of several flows with the same charge, the first named. */
  drained(): JobEntry[] {
    const model = new NaiveQueue();
    model.jobs = [...this.jobs];
    for (const [agent, vtime] of this.vtimes) model.vtimes.set(agent, vtime);
    const taken: JobEntry[] = [];
    while (model.jobs.length > 0) {
      const [next] = model.active.sort((a, b) => model.vtime(a) - model.vtime(b)) as [string];
      const entry = model.of(next)[0]!;
      model.vtimes.set(next, model.vtime(next) + entry.ask.spec.weight);
      model.jobs.splice(model.jobs.indexOf(entry), 1);
      taken.push(entry);
    }
    return taken;
  }

  /** Any of several flows with the same virtual time may go first. */
  checkTake(taken: JobEntry | undefined): void {
    if (!taken) return assert.equal(this.jobs.length, 0);
    const { agent, weight } = taken.ask.spec;
    const least = Math.min(...this.active.map((each) => this.vtime(each)));
    assert.equal(this.vtime(agent), least, 'the flow that was charged least is next');
    assert.equal(taken, this.of(agent)[0], 'and of it the first');
    this.vnow = least;
    this.vtimes.set(agent, least + weight);
    this.remove(taken);
  }
}

const COMMANDS = fc.array(
  fc.record({
    op: fc.constantFrom('add', 'add', 'add', 'take', 'take', 'remove', 'return'),
    agent: fc.constantFrom('a', 'b', 'c', 'd'),
    score: fc.integer({ min: 0, max: 1 }),
    weight: fc.constantFrom(1, 1, 1, 2, 0.5),
    pick: fc.nat(),
  }),
  { maxLength: 300, size: 'max' },
);

test('ClassQueue serves jobs like the slow reference implementation', () => {
  fc.assert(
    fc.property(COMMANDS, (commands) => {
      const queue = new ClassQueue();
      const naive = new NaiveQueue();
      const gone: JobEntry[] = [];
      for (const [at, { op, pick, ...ask }] of commands.entries()) {
        if (op === 'add' || op === 'return') {
          const entry = (op === 'return' ? gone.shift() : undefined) ?? makeEntry(at + 1, ask);
          queue.add(entry);
          naive.add(entry);
        } else if (op === 'take') {
          assert.equal(queue.head() === undefined, naive.jobs.length === 0);
          const head = queue.head();
          const taken = queue.take();
          assert.equal(taken, head);
          naive.checkTake(taken);
          if (taken) gone.push(taken);
        } else if (naive.jobs.length > 0) {
          const entry = naive.jobs[pick % naive.jobs.length]!;
          queue.remove(entry);
          naive.remove(entry);
          gone.push(entry);
        }
        assert.equal(queue.size, naive.jobs.length);
        assert.equal(queue.oldest(), naive.jobs[0], 'the oldest is the first that became ready');
        for (const entry of naive.jobs) assertInside(queue.positionOf(entry), queue.size);
      }
    }),
    { numRuns: 100 },
  );
});

function assertInside(position: number, size: number): void {
  assert.ok(
    Number.isInteger(position) && position >= 0 && position < size,
    `position ${position} of ${size}`,
  );
}

function takeAll(queue: ClassQueue): string[] {
  const taken: string[] = [];
  for (let entry = queue.take(); entry; entry = queue.take()) taken.push(entry.ask.spec.agent);
  return taken;
}

test('agents with waiting jobs take turns, however many jobs each has', () => {
  const queue = new ClassQueue();
  let n = 0;
  const add = (agent: string, count: number): void => {
    for (let i = 0; i < count; i++) queue.add(makeEntry(++n, { agent }));
  };
  add('many', 1000);
  add('some', 30);
  add('few', 10);
  const first = takeAll(queue).slice(0, 30);
  for (const agent of ['many', 'some', 'few']) {
    assert.equal(first.filter((each) => each === agent).length, 10, agent);
  }
});

test('a job of twice the weight costs its agent two turns', () => {
  const queue = new ClassQueue();
  for (let n = 1; n <= 60; n++) {
    queue.add(makeEntry(2 * n, { agent: 'heavy', weight: 2 }));
    queue.add(makeEntry(2 * n + 1, { agent: 'light' }));
  }
  const first = takeAll(queue).slice(0, 60);
  assert.equal(first.filter((each) => each === 'heavy').length, 20);
});

test('an agent gets no credit for a time without jobs', () => {
  const queue = new ClassQueue();
  let n = 0;
  for (let i = 0; i < 100; i++) queue.add(makeEntry(++n, { agent: 'steady' }));
  for (let i = 0; i < 50; i++) queue.take();
  for (let i = 0; i < 20; i++) queue.add(makeEntry(++n, { agent: 'late' }));
  const next = Array.from({ length: 20 }, () => queue.take()!.ask.spec.agent);
  assert.equal(next.filter((each) => each === 'late').length, 10);
});

test('an agent with one job at a time gains nothing by leaving and coming back', () => {
  const queue = new ClassQueue();
  let n = 0;
  for (let i = 0; i < 100; i++) queue.add(makeEntry(++n, { agent: 'steady' }));
  queue.add(makeEntry(++n, { agent: 'jumper' }));
  const taken: string[] = [];
  for (let i = 0; i < 40; i++) {
    const { agent } = queue.take()!.ask.spec;
    taken.push(agent);
    if (agent === 'jumper') queue.add(makeEntry(++n, { agent }));
  }
  assert.equal(taken.filter((each) => each === 'jumper').length, 20, taken.join(' '));
});

/** Each agent's jobs have one weight: where they differ, a position is an estimate. */
const AGENTS = { a: 1, b: 1, c: 2, d: 0.5 } as const;

const HISTORY = fc.array(
  fc.record({
    op: fc.constantFrom('add', 'add', 'add', 'add', 'take', 'remove', 'return', 'return'),
    agent: fc.constantFrom(...(Object.keys(AGENTS) as (keyof typeof AGENTS)[])),
    score: fc.constantFrom(0, 0, 0, 0, 5),
    pick: fc.nat(),
  }),
  { minLength: 200, maxLength: 600, size: 'max' },
);

test('the position is the one of a plain model, also for jobs that come back after a retry or a redrive', () => {
  fc.assert(
    fc.property(HISTORY, (history) => {
      const queue = new ClassQueue();
      const naive = new NaiveQueue();
      const gone: JobEntry[] = [];
      for (const [at, { op, agent, score, pick }] of history.entries()) {
        const entry =
          op === 'add'
            ? makeEntry(at + 1, { agent, score, weight: AGENTS[agent] })
            : op === 'return'
              ? gone.shift()
              : undefined;
        if (entry) {
          queue.add(entry);
          naive.add(entry);
        } else if (op === 'take') {
          const taken = queue.take();
          naive.checkTake(taken);
          if (taken) gone.push(taken);
        } else if (op === 'remove' && naive.jobs.length > 0) {
          const removed = naive.jobs[pick % naive.jobs.length]!;
          queue.remove(removed);
          naive.remove(removed);
          gone.push(removed);
        }
      }
      const ties = naive.active.length;
      for (const [at, entry] of naive.drained().entries()) {
        const position = queue.positionOf(entry);
        assert.ok(Math.abs(position - at) <= ties, `${position} instead of ${at} of ${queue.size}`);
      }
    }),
    { numRuns: 50 },
  );
});

test('with many agents the position is estimated from some of them', () => {
  const queue = new ClassQueue();
  let n = 0;
  const add = (agent: string): JobEntry => {
    const entry = makeEntry(++n, { agent });
    queue.add(entry);
    return entry;
  };
  for (let at = 0; at < 1000; at++) add(`small-${at}`);
  const large = Array.from({ length: 1000 }, () => add('large'));
  assert.equal(queue.positionOf(large[999]!), 1999);
  for (const at of [1, 10, 500]) {
    const position = queue.positionOf(large[at]!);
    assert.ok(Math.abs(position - (1000 + at)) <= 50, `${position} instead of ${1000 + at}`);
  }
});

test('with one agent the position is exact', () => {
  const queue = new ClassQueue();
  const entries = Array.from({ length: 40 }, (_, at) => makeEntry(at + 1, { agent: 'a' }));
  for (const entry of entries) queue.add(entry);
  for (const [at, entry] of entries.entries()) assert.equal(queue.positionOf(entry), at);
});

test('cameBefore counts the waiting jobs only, not those that have left', () => {
  const queue = new ClassQueue();
  assert.equal(queue.cameBefore(1), 0);
  const entries = Array.from({ length: 100 }, (_, at) => makeEntry(at + 1));
  for (const entry of entries) queue.add(entry);
  assert.deepEqual([queue.cameBefore(1), queue.cameBefore(41), queue.cameBefore(999)], [0, 40, 100]);
  for (let n = 0; n < 50; n++) queue.take();
  queue.oldest();
  assert.deepEqual([queue.cameBefore(51), queue.cameBefore(61), queue.cameBefore(999)], [0, 10, 50]);
});
