/** Jobs that wait without an attempt, as functions of an embedding program use them, on every store. */
import assert from 'node:assert/strict';
import { describe, type TestContext } from 'node:test';
import type { FunctionContext } from '../../src/backends/local/functions.ts';
import type { Env } from '../../src/kit/env/env.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { nextTurn } from '../../src/kit/slices.ts';
import { DECISION_MS } from '../../src/runtime/effects.ts';
import type { Orchestrator } from '../../src/runtime/orchestrator.ts';
import { LASTING, onStores, STORES, start, within } from './flow-kit.ts';
import { eventually } from './site-client.ts';

/** More than is stored inside of a record. */
const LARGE = 'x'.repeat(10_000);

interface Asked {
  readonly parts: number;
}

/** What was called, and the parts that are held up until they are let go. */
class Site {
  readonly calls: string[] = [];
  readonly #held = new Map<string, () => void>();
  hold = false;

  readonly backends = [
    {
      name: 'runs',
      slots: 1,
      repeatable: true,
      types: { run: (asked: Asked, at: FunctionContext) => this.#run(asked, at) },
    },
    { name: 'parts', slots: 4, types: { part: (n: number, at: FunctionContext) => this.#part(n, at) } },
  ] as never;

  #run({ parts }: Asked, context: FunctionContext): unknown {
    this.calls.push(`${context.jobId}#${context.attempt}`);
    const { waited, jobId } = context;
    if (waited) return { state: waited.state, jobs: waited.jobs, woken: waited.woken };
    const jobs = Array.from({ length: parts }, (_, n) => ({
      job_id: `${jobId}.${n}`,
      type: 'part',
      payload: n,
    }));
    return context.wait({ state: { kept: LARGE }, jobs });
  }

  async #part(n: number, { jobId }: FunctionContext): Promise<string> {
    this.calls.push(jobId);
    if (this.hold) await new Promise<void>((resolve) => this.#held.set(jobId, resolve));
    return `${n}${LARGE}`;
  }

  async started(id: string): Promise<void> {
    while (!this.#held.has(id)) await new Promise((resolve) => setImmediate(resolve));
  }

  async letGo(id: string): Promise<void> {
    await this.started(id);
    this.#held.get(id)?.();
  }
}

const begin = (t: TestContext, data: string, site: Site): Promise<Orchestrator> =>
  start(t, { data, backends: site.backends });

/** The types of all events of the job. */
async function typesOf(brain: Orchestrator): Promise<string[]> {
  const types: string[] = [];
  for await (const { type } of brain.events('a')) types.push(type);
  return types;
}

const DONE = { state: { kept: LARGE }, jobs: ['a.0', 'a.1'], woken: 'children' };

const circular: Record<string, unknown> = {};
circular['self'] = circular;

/** A list with a hole. */
const sparse: unknown[] = [1];
sparse[2] = 3;

/** Waits that cannot be kept, by the job that asks for them. */
const WRONG: Readonly<Record<string, object>> = {
  undefined: { state: undefined },
  bigint: { state: { n: 1n } },
  cycle: { state: circular },
  'in-list': { state: { list: [LARGE, 1n] }, growing: ['list'] },
  'made-nothing': { state: { list: [1], toJSON: () => undefined }, growing: ['list'] },
  'no-list': { state: {}, jobs: {} },
};

describe('a function that waits with something that is no JSON', () => {
  onStores('fails with a clear error, and everything else goes on', STORES, async (t, data) => {
    const run = (_: unknown, { wait, waited, jobId }: FunctionContext): unknown =>
      waited ? waited.state : wait(WRONG[jobId] ?? { state: { list: sparse }, growing: ['list'], forMs: 1 });
    const brain = await start(t, { data, backends: [{ name: 'f', slots: 9, types: { run } }] as never });
    const ids = [...Object.keys(WRONG), 'sparse'];
    for (const id of ids) await brain.submit({ job_id: id, type: 'run', payload: null });
    const ends = await within(Promise.all(ids.map((id) => brain.wait(id))));
    assert.deepEqual(
      ends.map(({ job_id: id, state, error, tries }) => [id, state, error?.code, tries]),
      [
        ...Object.keys(WRONG).map((id) => [id, 'dead', 'INVALID_PARAMS', 1]),
        ['sparse', 'succeeded', undefined, 0],
      ],
    );
    assert.deepEqual(ends.at(-1)?.result, { list: [1, null, 3] });
  });

  onStores('in the payload of a job below has that job refused', STORES, async (t, data) => {
    const broken = {
      get payload(): never {
        throw new Error('not now');
      },
    };
    const run = (_: unknown, { wait, waited }: FunctionContext): unknown =>
      waited
        ? waited.refused.map(({ error }) => error.code)
        : wait({ state: 1, jobs: [{ type: 'run', payload: { n: 1n } }, broken] });
    const brain = await start(t, { data, backends: [{ name: 'f', types: { run } }] as never });
    await brain.submit({ job_id: 'j', type: 'run', payload: null });
    const { result } = await within(brain.wait('j'));
    assert.deepEqual(result, ['INVALID_PARAMS', 'INVALID_PARAMS']);
  });
});

describe('a function that waits for jobs', () => {
  onStores('goes on with what it kept when they have ended', STORES, async (t, data) => {
    const site = new Site();
    const brain = await begin(t, data, site);
    await brain.submit({ job_id: 'a', type: 'run', payload: { parts: 2 } });
    const job = await brain.wait('a');
    assert.deepEqual([job.state, job.result], ['succeeded', DONE]);
    assert.deepEqual([...site.calls].sort(), ['a#1', 'a#2', 'a.0', 'a.1']);
  });

  onStores('is shown as waiting, and holds no slot', STORES, async (t, data) => {
    const site = new Site();
    site.hold = true;
    const brain = await begin(t, data, site);
    await brain.submit({ job_id: 'a', type: 'run', payload: { parts: 2 } });
    await site.letGo('a.0');
    await brain.wait('a.0');
    const { state, wait, waiting } = await brain.get('a');
    assert.deepEqual([state, wait], ['waiting', { step: 1, jobs: ['a.0', 'a.1'], needs: 'all' }]);
    assert.deepEqual(waiting, { code: 'wait', text: 'waits for the end of job "a.1"' });
    await brain.submit({ job_id: 'b', type: 'run', payload: { parts: 0 } });
    await site.letGo('a.1');
    assert.equal((await brain.wait('a')).state, 'succeeded');
    assert.ok(site.calls.includes('b#1'));
  });

  onStores(
    'is followed over its wait to its end, also by one who comes while it waits',
    STORES,
    async (t, data) => {
      const site = new Site();
      site.hold = true;
      const brain = await begin(t, data, site);
      await brain.submit({ job_id: 'a', type: 'run', payload: { parts: 1 } });
      const early = typesOf(brain);
      await site.started('a.0');
      assert.equal((await brain.get('a')).state, 'waiting');
      const late = typesOf(brain);
      await site.letGo('a.0');
      assert.equal((await within(early)).at(-1), 'end');
      assert.equal((await within(late)).at(-1), 'end');
    },
  );

  onStores('goes on after a restart', LASTING, async (t, data) => {
    const before = new Site();
    before.hold = true;
    const first = await begin(t, data, before);
    await first.submit({ job_id: 'a', type: 'run', payload: { parts: 2 } });
    await before.letGo('a.0');
    await first.wait('a.0');
    const stopped = first.stop();
    await before.letGo('a.1');
    await stopped;
    const after = new Site();
    const second = await begin(t, data, after);
    const job = await second.wait('a');
    assert.deepEqual([job.state, job.result], ['succeeded', DONE]);
  });
});

onStores(
  'an attempt that only decides: its acceptance is recorded with its end, or before if it takes long, and so is how long it took',
  STORES,
  async (t, data) => {
    const mayEnd = Promise.withResolvers<string>();
    const real = realEnv();
    const isLong: (() => void)[] = [];
    const after: Env['timers']['after'] = (ms, run) => {
      if (ms !== DECISION_MS) return real.timers.after(ms, run);
      isLong.push(run);
      return () => undefined;
    };
    let passedMs = 0;
    const { now, monotonic } = real.clock;
    const clock = { now: () => now() + passedMs, monotonic: () => monotonic() + passedMs };
    const env = { ...real, clock, timers: { ...real.timers, after } };
    const turns = async () => {
      for (let turn = 0; turn < 20; turn++) await nextTurn(real.timers);
      passedMs += 5000;
      return 'soon';
    };
    const types = { quick: turns, slow: () => mayEnd.promise };
    const brain = await start(t, { data, env, backends: [{ name: 'decides', repeatable: true, types }] });
    await brain.submit({ job_id: 'quick', type: 'quick' });
    const { state, attempts, started_at: startedAt } = await within(brain.wait('quick'));
    const [{ accepted_at: acceptedAt = 0, ended_at: endedAt = 0 } = {}] = attempts;
    assert.deepEqual([state, attempts.length, isLong.length, startedAt], ['succeeded', 1, 1, acceptedAt]);
    assert.ok(endedAt - acceptedAt >= 5000, `it took ${endedAt - acceptedAt} ms`);
    await brain.submit({ job_id: 'slow', type: 'slow' });
    await eventually('it is offered', async () => isLong.length === 2);
    assert.equal((await brain.get('slow')).state, 'claimed');
    passedMs += 5000;
    for (const run of isLong) run();
    await eventually('it runs', async () => (await brain.get('slow')).state === 'running');
    mayEnd.resolve('later');
    const { result, attempts: slow } = await within(brain.wait('slow'));
    assert.equal(result, 'later');
    assert.ok(
      (slow[0]?.ended_at ?? 0) - (slow[0]?.accepted_at ?? 0) >= 5000,
      'also where it is recorded late',
    );
  },
);
