/** The bytes that a run of 100 calls of a model writes, beside the bytes of what was said in it. */
import { readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Bench, Row, Values } from '../kit/bench.ts';
import { inChild } from '../kit/child.ts';
import { folderBytes } from '../kit/disk.ts';
import { CALLS, INSTRUCTIONS, QUESTION } from '../systems/agent-script.ts';
import { answersIn, openAgents, type ScriptedModel, toolCall } from '../systems/agents-orchd.ts';

const STEPS = 100;
/** Results of tools: a short one, and a page of text. */
const RESULT_KIB = [2, 8];
const LINE = 'The quick brown fox jumps over the lazy dog, and then it rests. ';
const SAID =
  'I look up the next order, since the one before it has not arrived at its address either. '.repeat(2);

interface Args {
  readonly folder: string;
  readonly resultKib: number;
}

export async function measure({ folder, resultKib }: Args): Promise<Values> {
  const toolResult = LINE.repeat((resultKib * 1024) / LINE.length);
  let saidBytes = Buffer.byteLength(INSTRUCTIONS) + Buffer.byteLength(QUESTION);
  const [{ name } = { name: '' }] = CALLS;
  const model: ScriptedModel = (request) => {
    const answers = answersIn(request);
    saidBytes += Buffer.byteLength(SAID);
    if (answers + 1 >= STEPS) return { text: SAID };
    // Equal calls would be refused.
    const call = toolCall(`call_${answers}`, name, { number: answers });
    saidBytes += Buffer.byteLength(JSON.stringify(call)) + Buffer.byteLength(toolResult);
    return { text: SAID, tool_calls: [call] };
  };
  const brain = await openAgents({ folder, slots: 2, model, toolResult });
  const { steps } = await brain.run(QUESTION);
  if (steps.length !== 2 * STEPS - 1) throw new Error(`the run has ${steps.length} steps`);
  await brain.orchestrator.stop();
  const logBytes = writtenLog(join(folder, 'log'));
  const blobBytes = folderBytes(join(folder, 'blobs'));
  return {
    saidKib: saidBytes / 1024,
    logKib: logBytes / 1024,
    blobKib: blobBytes / 1024,
    indexKib: statSync(join(folder, 'history.sqlite')).size / 1024,
    ratio: (logBytes + blobBytes) / saidBytes,
  };
}

/** The bytes of the log without the zeros after its end: segments are preallocated. */
function writtenLog(folder: string): number {
  const segments = readdirSync(folder).filter((name) => name.endsWith('.log'));
  return segments.reduce((sum, name) => {
    const bytes = readFileSync(join(folder, name));
    let end = bytes.length;
    while (end > 0 && bytes[end - 1] === 0) end--;
    return sum + end;
  }, 0);
}

export const bench: Bench = {
  name: 'long-run',
  title:
    'bytes written by a run of 100 calls of a model, each of which asks for a tool with a result of 2 or 8 KiB',
  rounds: 'once',
  async run(options) {
    const folder = join(options.folder, 'long-run');
    const rows: Row[] = [];
    for (const resultKib of RESULT_KIB) {
      const values = await inChild({ measure, url: import.meta.url }, { folder, resultKib });
      rows.push({ case: `long run, results of ${resultKib} KiB`, values });
      rmSync(folder, { recursive: true });
    }
    return rows;
  },
};
