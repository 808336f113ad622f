/** The results of a run's calls outlive the history while the run does, on stores that last. */
import assert from 'node:assert/strict';
import type { Tool } from '../../src/index.ts';
import type { Env } from '../../src/kit/env/env.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import type { Orchestrator } from '../../src/runtime/orchestrator.ts';
import { Orchestrator as Brain } from '../../src/runtime/orchestrator.ts';
import { ScriptedModel } from '../fakes/scripted-model.ts';
import { LASTING, onStores, start, within } from './flow-kit.ts';
import { eventually } from './site-client.ts';

const HISTORY_SEC = 100;
const CONFIG = `
orchestrator: {retention: {history_sec: ${HISTORY_SEC}}}
agents: [{name: clerk, model: scripted, tools: [look]}]
`;
/** The purge, due so often, runs when a test says so. */
const PURGE_MS = 60_000;

class SteeredTime {
  #later = 0;
  #purges: (() => void)[] = [];

  get env(): Env {
    const real = realEnv();
    return {
      ...real,
      clock: {
        now: () => real.clock.now() + this.#later,
        monotonic: () => real.clock.monotonic() + this.#later,
      },
      timers: {
        soon: real.timers.soon,
        after: (ms, run) => {
          if (ms !== PURGE_MS) return real.timers.after(ms, run);
          this.#purges.push(run);
          return () => undefined;
        },
      },
    };
  }

  /** Lets the history age, and purges until a job of just before is gone: whatever was to go before it is gone too. */
  async pass(brain: Orchestrator, witness: string): Promise<void> {
    await brain.submit({ job_id: witness, type: 'nothing', payload: {} });
    await within(brain.wait(witness));
    const { state } = Brain.engineOf(brain);
    await eventually('the history has it', async () => !state.jobs.has(witness));
    this.#later += (HISTORY_SEC + 1) * 1000;
    await eventually('a purge', async () => {
      for (const purge of this.#purges.splice(0)) purge();
      return isGone(brain, witness);
    });
  }
}

const isGone = (brain: Orchestrator, id: string): Promise<boolean> =>
  brain.get(id).then(
    () => false,
    (error: { code?: string }) => error.code === 'NOT_FOUND',
  );

onStores(
  'a run that rests for longer than the history goes on with the results of its calls; they are purged after it',
  LASTING,
  async (t, data) => {
    const time = new SteeredTime();
    const looked = Promise.withResolvers<void>();
    const seen = Promise.withResolvers<string>();
    const look: Tool = {
      name: 'look',
      description: 'Looks.',
      parameters: { type: 'object' },
      effect: 'pure',
      run: () => {
        looked.resolve();
        return seen.promise;
      },
    };
    const model = new ScriptedModel((turn, { messages }) =>
      turn === 0
        ? { calls: [['c', 'look', {}]] }
        : { text: /two ships/.exec(messages.at(-1)?.content ?? '')?.[0] ?? 'nothing' },
    );
    const nothing = { name: 'nothing', slots: 1, types: { nothing: () => null } };
    const backends = [model.backend(), nothing];
    const brain = await start(t, { data, config: CONFIG, env: time.env, backends, tools: [look] });
    await brain.submit({ job_id: 'r', type: 'agent', payload: { agent: 'clerk', input: 'what is there?' } });
    await within(looked.promise);
    await brain.orders.pause('r', 'somebody', 'default');
    seen.resolve('two ships');
    await within(brain.wait('r.2.0'));
    await time.pass(brain, 'first');
    await time.pass(brain, 'second');
    await brain.orders.resume('r', 'somebody', 'default');
    const { result } = await within(brain.wait('r'));
    assert.equal((result as { reply: string }).reply, 'two ships');
    await time.pass(brain, 'third');
    const calls = ['r', 'r.1', 'r.2.0', 'r.3'];
    assert.deepEqual(await Promise.all(calls.map((id) => isGone(brain, id))), [true, true, true, true]);
  },
);
