/**
 * A run of an agent that calls another one, whose run below it calls two tools at once, `look` and `send`, of which `send` must not be called twice. Both write
 * what they do into a ledger of their own, outside the brain.
 */

import fs from 'node:fs';
import { join } from 'node:path';
import { Agents } from '../../src/agents/agents.ts';
import { loadRun } from '../../src/agents/replay/load.ts';
import { replayReport } from '../../src/agents/replay/replay-report.ts';
import type { RunResult } from '../../src/agents/run.ts';
import { runView } from '../../src/agents/run-view.ts';
import { runReads } from '../../src/app/run-reads.ts';
import { FunctionBackend } from '../../src/backends/local/functions.ts';
import { isTerminal } from '../../src/model/states.ts';
import type { Orchestrator } from '../../src/runtime/orchestrator.ts';
import { AppendFile, readLines } from './append-file.ts';
import type { Folders } from './folders.ts';
import { BOSS, callsOf, delegatingModel, HELPER, notedTools, REPLY } from './noted-tools.ts';
import type { Played, World } from './world.ts';

const RUN = 'run';
/** Short beside the time of a call of a tool, so that the client sees the one that ends first before the other has ended. */
const POLL_MS = 10;

const ledgerOf = ({ ledger }: Folders): string => join(ledger, 'tools.jsonl');

/** The tools whose call a client has seen to have ended, with how often each had been called by then. */
const seenOf = ({ ledger }: Folders): string => join(ledger, 'seen.jsonl');

type ListedJob = Awaited<ReturnType<Orchestrator['list']>>['jobs'][number];

interface SeenCall {
  readonly tool: string;
  readonly begun: number;
}

/** A kill leaves what was seen before it: what has ended for a client is not called again by the next brain. */
function noteEnded(jobs: readonly ListedJob[], folders: Folders): void {
  const known = new Set(readLines<SeenCall>(seenOf(folders)).map(({ tool }) => tool));
  const file = new AppendFile(seenOf(folders));
  for (const { type, state, tags } of jobs) {
    const tool = tags?.['tool'];
    if (type !== 'tool' || state !== 'succeeded' || tool === undefined || known.has(tool)) continue;
    file.add({ tool, begun: callsOf(ledgerOf(folders), tool).begun } satisfies SeenCall);
  }
  file.close();
}

/** A call of `send` whose outcome is unknown: what it has done is looked up in its ledger. */
async function decide(brain: Orchestrator, jobs: readonly ListedJob[], folders: Folders): Promise<void> {
  for (const { job_id: id, state: held } of jobs) {
    if (held !== 'stale') continue;
    const { payload } = await brain.get(id);
    const { tool: name } = payload as { tool?: string };
    if (name !== 'send') throw new Error(`"${id}" is held, and may be repeated`);
    const { state } = await runView(RUN, (job) => brain.get(job));
    if (state !== 'needs_decision') throw new Error(`the run is ${state} while a call of it is held`);
    if (callsOf(ledgerOf(folders), 'send').begun === 0) await brain.resolve(id, { as: 'retry' });
    else await brain.resolve(id, { as: 'succeeded', result: { ok: true, text: 'send is done' } });
  }
}

async function play(brain: Orchestrator, { folders, sleep }: Played): Promise<void> {
  await brain.submit({ job_id: RUN, type: 'agent', payload: { agent: BOSS.name, input: 'have both done' } });
  for (;;) {
    const { state } = await brain.get(RUN);
    const { jobs } = await brain.list({ root: RUN });
    noteEnded(jobs, folders);
    if (isTerminal(state)) return;
    await decide(brain, jobs, folders);
    await sleep(POLL_MS);
  }
}

async function problems(brain: Orchestrator, folders: Folders): Promise<string[]> {
  const found: string[] = [];
  const { begun: sent } = callsOf(ledgerOf(folders), 'send');
  const { begun: looked } = callsOf(ledgerOf(folders), 'look');
  if (sent !== 1) found.push(`"send" was called ${sent} times`);
  // A call that only looks is repeated where its outcome is unknown, which is once after one death.
  if (looked < 1 || looked > 2) found.push(`"look" was called ${looked} times`);
  for (const { tool, begun } of readLines<SeenCall>(seenOf(folders)))
    if (callsOf(ledgerOf(folders), tool).begun !== begun)
      found.push(`"${tool}" was called again after it had ended`);
  const { state, result } = await brain.get(RUN);
  const { reply, error } = (result ?? {}) as Partial<RunResult>;
  if (reply !== REPLY || error !== null)
    found.push(`the run is ${state}, and says ${JSON.stringify(result)}`);
  const below = (await brain.list({ root: RUN, type: 'agent' })).jobs.map(({ job_id: id }) => id);
  if (below.length !== 1) found.push(`the runs below are ${below.join()}`);
  for (const run of [RUN, ...below]) {
    const records = await loadRun((id) => brain.reads.recordedJob(id, 'default'), run);
    const { equal, difference } = await replayReport(records, { is: 'recorded' });
    if (!equal) found.push(`the replay of the run "${run}" differs: ${difference?.text}`);
  }
  return found;
}

export const agentRun: World = {
  options: (env, { folders, sleep }) => ({
    backends: (brain) => {
      fs.mkdirSync(folders.ledger, { recursive: true });
      const agents = new Agents({
        env,
        logger: undefined,
        agents: [BOSS, HELPER],
        tools: notedTools(ledgerOf(folders), sleep),
      });
      return [new FunctionBackend(env, delegatingModel().backend()), ...agents.backends(runReads(brain))];
    },
  }),
  play,
  done: (folders) => readLines(ledgerOf(folders)).length,
  atLeast: 4,
  everyTime: ['yield:before-commit', 'yield:after-commit', 'wake'],
  problems,
};
