/** The fake executor on its best behaviour, for the conformance suite. */
import type { BackendHarness } from '../../src/backends/conformance/harness.ts';
import { errorInfo } from '../../src/model/errors.ts';
import { jobOfToken } from '../../src/model/records.ts';
import { FakeExecutor, FakeLine } from './executor.ts';
import { harnessId, SteeredWorks, within } from './steered-work.ts';
import { World } from './world.ts';

export async function steeredExecutor(): Promise<BackendHarness> {
  const world = new World(1);
  const works = new SteeredWorks();
  const executor = new FakeExecutor(
    world,
    { name: 'fake', slots: 2, types: ['work'] },
    {
      async work(offer, emit) {
        const ordered = await works.of(jobOfToken(offer.token)).run(JSON.parse(offer.payloadText), emit);
        if (ordered.ok) return { ok: true, resultText: JSON.stringify({ text: ordered.text }) };
        return { ok: false, error: errorInfo(ordered.retriable ? 'WORKER_TIMEOUT' : 'EXECUTION_FAILED') };
      },
    },
  );
  const clock = letTimePass(world);
  let brain = { alive: true };
  let backend = new FakeLine(executor, brain);
  return {
    id: harnessId(),
    get backend() {
      return backend;
    },
    workType: 'work',
    unrunnable: [{ type: 'other', payloadText: '{}' }],
    now: () => world.clock.now(),
    execution: (token) => works.of(jobOfToken(token)),
    begun: (token) => executor.ledger.filter(({ job }) => job === jobOfToken(token)).length,
    async restartBrain() {
      brain.alive = false;
      brain = { alive: true };
      backend = new FakeLine(executor, brain);
    },
    async stopExecutor() {
      executor.loseRunning();
    },
    async loseMemory() {
      executor.forget();
    },
    within,
    async remove() {
      await works.end();
      clock.stop();
    },
  };
}

/** Lets everything happen in the world that is due in it, until it is stopped. */
function letTimePass(world: World): { stop(): void } {
  let passes = true;
  const pass = async (): Promise<void> => {
    while (passes) if (!(await world.step())) await new Promise<void>((resolve) => setImmediate(resolve));
  };
  void pass();
  return {
    stop: () => {
      passes = false;
    },
  };
}
