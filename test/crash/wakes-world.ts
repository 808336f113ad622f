/**
 * Two jobs that wait for a hundred jobs each, all of which end because one other job is cancelled. These are more ends than
 * one step passes on: one commit has all ends that the first job waits for, and only a later commit wakes it.
 */
import { join } from 'node:path';
import { FunctionBackend, type FunctionContext } from '../../src/backends/local/functions.ts';
import { isTerminal } from '../../src/model/states.ts';
import { MAX_CHILDREN } from '../../src/model/waiting.ts';
import type { Orchestrator } from '../../src/runtime/orchestrator.ts';
import { AppendFile, readLines } from './append-file.ts';
import type { Folders } from './folders.ts';
import type { Played, World } from './world.ts';

const WAITERS = ['a', 'b'] as const;
/** The job that all jobs below the two name in `after`. */
const GATE = 'gate';
/** Of virtual time: a job that is never woken is seen after few looks at it. */
const POLL_MS = 5000;

const ledgerOf = ({ ledger }: Folders): string => join(ledger, 'woken.jsonl');

/** Waits for a hundred jobs; called again, notes that it was woken. */
function waiter(folders: Folders, { jobId, waited, wait }: FunctionContext): unknown {
  if (!waited) {
    const jobs = Array.from({ length: MAX_CHILDREN }, (_, n) => ({
      job_id: `${jobId}.${n}`,
      type: 'part',
      after: [GATE],
    }));
    return wait({ state: null, jobs });
  }
  const file = new AppendFile(ledgerOf(folders));
  file.add({ job: jobId });
  file.close();
  return waited.woken;
}

async function play(brain: Orchestrator, { sleep }: Played): Promise<void> {
  await brain.submit({ job_id: GATE, type: 'gate' });
  for (const id of WAITERS) await brain.submit({ job_id: id, type: 'waiter' });
  const have = async (isSo: (state: string) => boolean): Promise<boolean> => {
    const jobs = await Promise.all(WAITERS.map((id) => brain.get(id)));
    return jobs.every(({ state }) => isSo(state));
  };
  while (!(await have((state) => state === 'waiting' || isTerminal(state as never)))) await sleep(20);
  if (!isTerminal((await brain.get(GATE)).state)) await brain.cancel(GATE);
  while (!(await have((state) => isTerminal(state as never)))) await sleep(POLL_MS);
}

async function problems(brain: Orchestrator): Promise<string[]> {
  const found: string[] = [];
  for (const id of WAITERS) {
    const { state, result } = await brain.get(id);
    if (state !== 'succeeded' || result !== 'children')
      found.push(`"${id}" is ${state}, woken by ${JSON.stringify(result)}`);
  }
  return found;
}

export const wakes: World = {
  options: (env, { folders }) => ({
    backends: () => [
      new FunctionBackend(env, {
        name: 'decides',
        repeatable: true,
        types: { waiter: (_: unknown, context) => waiter(folders, context) },
      }),
      new FunctionBackend(env, {
        name: 'works',
        slots: 2,
        types: {
          gate: (_: unknown, { signal }) =>
            new Promise((_resolve, reject) => signal.addEventListener('abort', reject)),
          part: () => 'never called: the job before it was cancelled',
        },
      }),
    ],
  }),
  play,
  done: (folders) => readLines(ledgerOf(folders)).length,
  atLeast: WAITERS.length,
  everyTime: ['wake'],
  diesOnlyThere: true,
  problems,
};
