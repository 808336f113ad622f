/** Claims that wait for work, and what becomes of them with the commits of a brain. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { engineOf } from '../../../test/fakes/engine-of.ts';
import { within } from '../../../test/flow/flow-kit.ts';
import { runtimeSettings } from '../../app/settings.ts';
import { loadConfig } from '../../config/load.ts';
import { realEnv } from '../../kit/env/real.ts';
import type { Change } from '../../model/records.ts';
import { MemoryStore } from '../../stores/memory/memory.ts';
import { Orchestrator } from '../orchestrator.ts';

const LONG_MS = 25_000;

class Brain {
  readonly orchestrator: Orchestrator;
  /** The changes of each turn. */
  readonly turns: (readonly Change[])[] = [];
  /** Flushes of the store while they are held back; undefined while they are not. */
  #held: (() => void)[] | undefined;

  private constructor() {
    const env = realEnv();
    const { turns } = this;
    const soon = (run: () => void): void => {
      if (this.#held) this.#held.push(run);
      else env.timers.soon(run);
    };
    const timers = { soon, after: env.timers.after.bind(env.timers) };
    const store = new (class extends MemoryStore {
      override append(changes: readonly Change[], now: number): number {
        turns.push(changes);
        return super.append(changes, now);
      }
    })(timers);
    const settings = { ...runtimeSettings(loadConfig({})), sweepIntervalMs: 2 * LONG_MS };
    this.orchestrator = new Orchestrator({ env, store, settings, backends: [] });
  }

  static async started(t: TestContext): Promise<Brain> {
    const brain = new Brain();
    t.after(() => {
      brain.commit();
      return brain.orchestrator.stop();
    });
    await brain.orchestrator.start();
    return brain;
  }

  async consumer(): Promise<string> {
    const body = { pool: 'p', slots: 2, types: ['t'] };
    return (await this.orchestrator.consumers.register(body)).consumer_id;
  }

  claim(consumer: string, claim: number, waitMs: number): Promise<string> {
    return this.orchestrator.consumers.claim(consumer, { claim, max: 2, wait_ms: waitMs }, () => undefined);
  }

  /** Until a claim waits that was made before: what it finds at first is decided before another one is answered. */
  async untilWaiting(consumer: string): Promise<void> {
    await this.claim(consumer, 100, 0);
  }

  submit(...ids: readonly string[]): Promise<unknown> {
    return this.orchestrator.submitMany(ids.map((job_id) => ({ job_id, type: 't' })));
  }

  hold(): void {
    this.#held = [];
  }

  commit(): void {
    const held = this.#held ?? [];
    this.#held = undefined;
    for (const run of held) run();
  }
}

const tokensIn = (text: string): string[] =>
  JSON.parse(text).jobs.map(({ token }: { token: string }) => token);

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test('a job that comes while a claim waits is claimed in the commit that records its attempt', async (t) => {
  const brain = await Brain.started(t);
  const id = await brain.consumer();
  const claimed = brain.claim(id, 1, LONG_MS);
  await brain.untilWaiting(id);
  await brain.submit('a', 'b', 'c');
  assert.deepEqual(tokensIn(await claimed), ['a:1', 'b:1']);
  const causes = brain.turns.find((changes) => changes.some(({ kind }) => kind === 'ask'));
  assert.equal(causes?.filter(({ cause }) => cause === 'claimed-by-consumer').length, 2);
});

test('a claim that waits is answered only after its commit', async (t) => {
  const brain = await Brain.started(t);
  const id = await brain.consumer();
  let isAnswered = false;
  const claimed = brain.claim(id, 1, LONG_MS).finally(() => {
    isAnswered = true;
  });
  await brain.untilWaiting(id);
  brain.hold();
  const submitted = brain.submit('a');
  const { pulled } = engineOf(brain.orchestrator).state;
  while (
    ![...engineOf(brain.orchestrator).state.consumers.entries()].some(([of]) => pulled.held(of).size > 0)
  )
    await turn();
  for (let more = 0; more < 5; more++) await turn();
  assert.equal(isAnswered, false, 'it is answered before its commit');
  brain.commit();
  await submitted;
  assert.deepEqual(tokensIn(await claimed), ['a:1']);
});

test('a job that is committed together with the first look of a claim is claimed without a sweep', async (t) => {
  const brain = await Brain.started(t);
  const id = await brain.consumer();
  brain.hold();
  const claimed = brain.claim(id, 1, LONG_MS);
  await turn();
  await turn();
  const submitted = brain.submit('a');
  await turn();
  await turn();
  brain.commit();
  await submitted;
  assert.deepEqual(tokensIn(await claimed), ['a:1']);
});

test('claims that wait are refused when the brain stops', async (t) => {
  const brain = await Brain.started(t);
  const id = await brain.consumer();
  const refused = assert.rejects(brain.claim(id, 1, LONG_MS), { code: 'SHUTTING_DOWN' });
  await brain.untilWaiting(id);
  await brain.orchestrator.stop();
  await refused;
});

test('a claim that waits is refused where the engine fails with it', async (t) => {
  const brain = await Brain.started(t);
  const id = await brain.consumer();
  const refused = assert.rejects(within(brain.claim(id, 1, LONG_MS)), { code: 'INTERNAL' });
  await brain.untilWaiting(id);
  const engine = engineOf(brain.orchestrator);
  const steps = engine.steps.bind(engine);
  engine.steps = (events, now) => {
    if (events.some(({ type }) => type === 'claim')) throw new Error('a fault of the engine');
    return steps(events, now);
  };
  await assert.rejects(brain.submit('a'));
  await refused;
});
