/**
 * The replay of a run of 100 steps, 50 calls of a model and 50 of a tool in turn: with all reads, as the API does it, and
 * from a saved file.
 */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { loadRun } from '../../src/agents/replay/load.ts';
import type { RunRecords } from '../../src/agents/replay/recorded-run.ts';
import { replayReport } from '../../src/agents/replay/replay-report.ts';
import { savedRecords, savedRun } from '../../src/agents/replay/saved-run.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { nextTurn } from '../../src/kit/slices.ts';
import type { Bench, Row, Values } from '../kit/bench.ts';
import { inChild } from '../kit/child.ts';
import { median, now } from '../kit/numbers.ts';
import { CALLS, QUESTION } from '../systems/agent-script.ts';
import { answersIn, openAgents, type ScriptedModel, toolCall } from '../systems/agents-orchd.ts';

const MODEL_CALLS = 51;
const STEPS = 2 * MODEL_CALLS - 1;
const REPLAYS = 30;
const RESULT_KIB = [0.1, 2, 8];

interface Args {
  readonly folder: string;
  readonly resultKib: number;
}

export async function measure({ folder, resultKib }: Args): Promise<Values> {
  const [{ name } = { name: '' }] = CALLS;
  const model: ScriptedModel = (request) => {
    const answers = answersIn(request);
    if (answers + 1 >= MODEL_CALLS) return { text: 'It has arrived.' };
    return {
      text: 'I look up the next order.',
      tool_calls: [toolCall(`c${answers}`, name, { number: answers })],
    };
  };
  const toolResult = 'The order is on its way. '.repeat((resultKib * 1024) / 25);
  const brain = await openAgents({ folder, slots: 2, model, toolResult });
  const { orchestrator } = brain;
  const { job_id: runId } = await orchestrator.submit({
    type: 'agent',
    payload: { agent: 'clerk', input: QUESTION },
  });
  await orchestrator.wait(runId);
  await brain.indexed();
  const { timers } = realEnv();
  const turn = () => nextTurn(timers);
  const load = (): Promise<RunRecords> => {
    const known = new Map();
    return loadRun((id) => orchestrator.reads.recordedJob(id, 'default', known), runId);
  };
  const file = JSON.stringify(await savedRun(await load()));
  const values = {
    fromStoreMs: await timeOf(async () => compare(await load(), turn)),
    fromFileMs: await timeOf(async () => compare(savedRecords(JSON.parse(file)), turn)),
    fileKib: file.length / 1024,
    steps: STEPS,
  };
  await orchestrator.stop();
  return values;
}

async function compare(records: RunRecords, turn: () => Promise<void>): Promise<void> {
  const { equal, steps } = await replayReport(records, { is: 'recorded' }, turn);
  if (!equal || steps !== STEPS) throw new Error(`the replay has ${steps} steps, and is equal: ${equal}`);
}

async function timeOf(replay: () => Promise<void>): Promise<number> {
  const times: number[] = [];
  for (let at = 0; at < REPLAYS; at++) {
    const from = now();
    await replay();
    times.push(now() - from);
  }
  return median(times) ?? 0;
}

export const bench: Bench = {
  name: 'replay',
  title: 'replay of a run of 101 steps, 51 calls of a model and 50 of a tool, from the store and from a file',
  rounds: 'once',
  async run(options) {
    const folder = join(options.folder, 'replay');
    const rows: Row[] = [];
    for (const resultKib of RESULT_KIB) {
      const values = await inChild({ measure, url: import.meta.url }, { folder, resultKib });
      rows.push({ case: `replay, results of ${resultKib} KiB`, values });
      rmSync(folder, { recursive: true });
    }
    return rows;
  },
};
