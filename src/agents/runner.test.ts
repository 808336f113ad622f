/** What an attempt of a run does where something throws outside of its steps. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { FunctionContext } from '../backends/local/functions.ts';
import type { AgentDefinition } from '../model/agent.ts';
import { OrchdError } from '../model/errors.ts';
import type { JobView } from '../model/http/jobs.ts';
import { runLabelIn } from '../model/run-jobs.ts';
import type { RunResult } from './run.ts';
import { AgentRunner, type RunnerParts } from './runner.ts';

const AGENT: AgentDefinition = { name: 'helper', model: 'fast' };

const throws = (error: Error) => (): never => {
  throw error;
};

/** The result of the first attempt, and what it has said of itself. */
async function begun(parts: Partial<RunnerParts>): Promise<{ result: RunResult; label: string | undefined }> {
  const runner = new AgentRunner({
    clock: { now: () => 0 },
    agent: () => AGENT,
    recorded: throws(new Error('no fork')),
    partsOf: throws(new Error('no step')),
    job: async () => ({}) as JobView,
    conversation: async () => [],
    logger: undefined,
    ...parts,
  });
  let label: string | undefined;
  const context = {
    jobId: 'r',
    tenant: 'default',
    traceId: 't',
    sessionId: 's',
    priority: 'batch',
    waited: undefined,
    label: (text: string) => {
      label = text;
    },
  } as unknown as FunctionContext;
  const result = (await runner.run({ agent: 'helper', input: 'why?' }, context)) as RunResult;
  return { result, label };
}

test('a defect before the first step is answered, and its label makes telemetry raise an alert', async () => {
  const { result, label } = await begun({ agent: throws(new TypeError('a defect')) });
  assert.deepEqual([result.error?.code, result.steps, result.trace_id], ['INTERNAL', [], 't']);
  assert.match(result.reply, /could not be answered/);
  assert.deepEqual(runLabelIn(label), { agent: 'helper', phases: ['init', 'failed'], isDefect: true });
});

test('a read that fails, and what the caller has done wrong, end the attempt alone', async () => {
  const unreachable = new Error('the database is away');
  await assert.rejects(begun({ conversation: async () => Promise.reject(unreachable) }), unreachable);
  const unknown = new OrchdError('NOT_FOUND', 'there is no agent');
  await assert.rejects(begun({ agent: throws(unknown) }), unknown);
});
