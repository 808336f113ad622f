/** Many runs before a single seat: each comes to its end, and what was begun goes first. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { RunResult } from '../../src/agents/run.ts';
import type { Orchestrator, Tool } from '../../src/index.ts';
import { ScriptedModel } from '../fakes/scripted-model.ts';
import { dataOf, LASTING, onStores, type StoreName, start, within } from './flow-kit.ts';

const PATIENCE_MS = 300_000;

const CONFIG = 'agents: [{name: helper, model: scripted, tools: [look]}]';

const LOOK: Tool = {
  name: 'look',
  description: 'Looks.',
  parameters: { type: 'object', properties: {} },
  effect: 'pure',
  run: () => 'seen',
};

/** A model with one slot, which calls a tool and then answers. It notes which run it works for. */
class Seat {
  /** The runs in the order of the calls of the model: each run twice. */
  readonly served: string[] = [];
  busy = 0;
  peak = 0;
  /** The first call ends when all runs wait behind it. */
  readonly #opened = Promise.withResolvers<void>();

  readonly model = new ScriptedModel(async (turn, _heard, { jobId }) => {
    this.served.push(jobId.split('.')[0] as string);
    this.peak = Math.max(this.peak, ++this.busy);
    await this.#opened.promise;
    this.busy--;
    return turn === 0 ? { calls: [['a', 'look', {}]] } : { text: 'seen' };
  });

  open(): void {
    this.#opened.resolve();
  }
}

const idsOf = (count: number): string[] => Array.from({ length: count }, (_, at) => `run${at}`);

/** Starts all runs, those of ten callers in turn, and waits for them. */
async function runAll(brain: Orchestrator, seat: Seat, ids: readonly string[]): Promise<void> {
  const ask = (id: string, at: number) => {
    const request = { job_id: id, type: 'agent', payload: { agent: 'helper', input: 'look' } };
    return brain.submit(request, { principal: `caller${at % 10}` });
  };
  await Promise.all(ids.map(ask));
  seat.open();
  const ended = await within(Promise.all(ids.map((id) => brain.wait(id))), PATIENCE_MS);
  for (const { job_id, state, result } of ended) {
    const { reply, error } = result as RunResult;
    assert.deepEqual([state, reply, error], ['succeeded', 'seen', null], job_id);
  }
}

/** The first calls of runs that were begun while a later call of a run stood in line: each of them came before its turn. */
async function beforeTheirTurn(brain: Orchestrator, ids: readonly string[]): Promise<string[]> {
  const timesOf = async (id: string): Promise<{ queued: number; begun: number }> => {
    const { created_at: queued, attempts } = await brain.get(id);
    return { queued, begun: attempts[0]?.intended_at ?? Number.NaN };
  };
  const later = await Promise.all(ids.map((id) => timesOf(`${id}.3`)));
  const found: string[] = [];
  for (const id of ids) {
    const { begun: at } = await timesOf(`${id}.1`);
    if (later.some(({ queued, begun }) => queued < at && at < begun)) found.push(id);
  }
  return found;
}

/** Fewer on the database: what is shown is the same, and each step is a transaction. */
const OTHERS: Partial<Record<StoreName, number>> = { journal: 1000, mariadb: 100 };

describe('a single seat', () => {
  for (const store of LASTING) {
    const others = OTHERS[store] ?? 100;
    test(`a run and its calls finish on it beside ${others} other runs, and what was begun goes first (${store})`, async (t) => {
      const seat = new Seat();
      const data = await dataOf(t, store);
      const backends = [seat.model.backend({ slots: 1 })];
      const brain = await start(t, { data, config: CONFIG, backends, tools: [LOOK] });
      const ids = idsOf(others + 1);
      await runAll(brain, seat, ids);
      assert.equal(seat.peak, 1);
      assert.equal(seat.served.length, 2 * (others + 1));
      // While a tool is called the seat serves others, but never those behind before those who have begun.
      assert.deepEqual(await beforeTheirTurn(brain, ids), []);
      const [first] = seat.served;
      assert.ok(seat.served.lastIndexOf(first as string) < seat.served.indexOf(`run${others}`));
    });
  }

  onStores(
    'is enough for all jobs of all runs: one that waits holds nothing that its calls need',
    LASTING,
    async (t, data) => {
      const seat = new Seat();
      const config = `${CONFIG}\nlimits: [{scope: global, running: 1}]`;
      const brain = await start(t, { data, config, backends: [seat.model.backend()], tools: [LOOK] });
      await runAll(brain, seat, idsOf(20));
      assert.deepEqual([seat.peak, seat.served.length], [1, 40]);
    },
  );
});
