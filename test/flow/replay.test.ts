/** A run is replayed from its records: its steps decide the same again, and nothing is called. */
import assert from 'node:assert/strict';
import { describe } from 'node:test';
import { LASTING, onStores, within } from './flow-kit.ts';
import { AGENTS, Counts, call, finish, type Json, replay, site, start } from './replay-kit.ts';

const RUNS = 50;

describe('a replay', () => {
  onStores(
    '[ADR-8] of 50 runs of every kind, stopped and resumed in the middle, asks for the same at every step, and calls nothing',
    LASTING,
    async (t, data) => {
      const counts = new Counts();
      const before = await site(t, { data, seed: 'fifty', counts });
      const ids = Array.from({ length: RUNS }, (_, at) => `r${at}`);
      const agentOf = (at: number): string =>
        at % 13 === 12 ? 'slow' : (AGENTS[at % AGENTS.length] as string);
      for (const [at, id] of ids.entries())
        await start(before, agentOf(at), { run_id: id, input: `question ${at}` });
      // Some have ended by now, others wait for a model, a tool or a person.
      await finish(before, ids.slice(0, 10), 'fifty');
      await within(before.stop());
      const brain = await site(t, { data, seed: 'fifty', counts });
      const held = settle(brain.orchestrator as Json);
      await finish(brain, ids, 'fifty').finally(held.stop);
      const called = [counts.models, counts.tools.length];
      const kinds = new Map<string, number>();
      for (const id of ids) {
        const report = await replay(brain, id);
        assert.deepEqual([report.equal, report.difference, report.has_end], [true, undefined, true], id);
        const { body: run } = await call(brain, 'GET', `/v2/runs/${id}`);
        const { body: saved } = await call(brain, 'GET', `/v2/runs/${id}/record`);
        for (const kind of [...kindsOf(run), ...inputsOf(saved), ...counts.asked])
          kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
      }
      assert.deepEqual([counts.models, counts.tools.length], called, 'nothing was called');
      // The runs are of every kind, or the test shows little.
      for (const kind of [
        ...['completed', 'failed', 'plan', 'tool', 'TOOL_FAILED', 'DENIED', 'EXECUTION_FAILED'],
        ...['UNKNOWN_TOOL', 'INVALID_ARGUMENTS', 'DUPLICATE_CALL_ID', 'several at once'],
        ...['the last answer', 'the fallback', 'a repair', 'refused', 'used', 'badArguments'],
      ])
        assert.ok((kinds.get(kind) ?? 0) > 0, `no run with ${kind}: ${[...kinds.keys()]}`);
    },
  );
});

/** Calls with an effect that the stop has cut off are held: somebody decides that they were made. */
function settle(orchestrator: Json): { stop(): void } {
  const timer = setInterval(async () => {
    const { jobs } = await orchestrator.list({ state: 'stale' });
    for (const { job_id: id } of jobs)
      await orchestrator.resolve(id, { as: 'succeeded' }).catch(() => undefined);
  }, 20);
  return { stop: () => clearInterval(timer) };
}

function kindsOf({ state, steps = [] }: Json): readonly string[] {
  const found = [state];
  for (const { event, tool, error, count } of steps) {
    found.push(event, ...(tool ? ['tool'] : []), ...(error ? [error] : []), ...(count > 1 ? ['count'] : []));
  }
  const byStep = steps.map(({ job_id: id = '' }: Json) => id.split('.').slice(0, 2).join('.'));
  if (new Set(byStep).size < byStep.length) found.push('several at once');
  return [...new Set(found as string[])];
}

/** What decisions of the run depended on that no other record has. */
const inputsOf = ({ head }: Json): readonly string[] =>
  head.record.inputs.flatMap((input: object) => Object.keys(input));
