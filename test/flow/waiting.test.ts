/** Jobs that wait without an attempt, as functions of an embedding program use them, on every store. */
import assert from 'node:assert/strict';
import { describe, type TestContext } from 'node:test';
import type { FunctionContext } from '../../src/backends/local/functions.ts';
import type { Orchestrator } from '../../src/runtime/orchestrator.ts';
import { LASTING, onStores, STORES, start, within } from './flow-kit.ts';

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
