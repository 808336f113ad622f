/**
 * A run of an agent that calls two tools at once, `look` and `send`, of which `send` must not be called twice. Both write
 * what they do into a ledger of their own, outside the brain.
 */

import fs from 'node:fs';
import { join } from 'node:path';
import { Agents } from '../../src/agents/agents.ts';
import type { RunResult } from '../../src/agents/run.ts';
import { runView } from '../../src/agents/run-view.ts';
import type { Tool, ToolContext } from '../../src/agents/tools/tool.ts';
import { runReads } from '../../src/app/run-reads.ts';
import { FunctionBackend } from '../../src/backends/local/functions.ts';
import { isTerminal } from '../../src/model/states.ts';
import type { Orchestrator } from '../../src/runtime/orchestrator.ts';
import { type Heard, ScriptedModel } from '../fakes/scripted-model.ts';
import { AppendFile, readLines } from './append-file.ts';
import type { Folders } from './folders.ts';
import type { Played, World } from './world.ts';

const RUN = 'run';
const PARAMETERS = { type: 'object', properties: {}, additionalProperties: false };

interface Line {
  readonly tool: string;
  readonly is: 'begin' | 'end';
}

const ledgerOf = ({ ledger }: Folders): string => join(ledger, 'tools.jsonl');

/** The ledger is open for each line only: a process that is killed leaves nothing to close. */
function note(folders: Folders, line: Line): void {
  fs.mkdirSync(folders.ledger, { recursive: true });
  const file = new AppendFile(ledgerOf(folders));
  file.add(line);
  file.close();
}

function tool(name: string, effect: Tool['effect'], ms: number, { folders, sleep }: Played): Tool {
  return {
    name,
    description: `The tool ${name}.`,
    parameters: PARAMETERS,
    effect,
    async run(_args: object, _context: ToolContext) {
      note(folders, { tool: name, is: 'begin' });
      await sleep(ms);
      note(folders, { tool: name, is: 'end' });
      return `${name} is done`;
    },
  };
}

const script = (turn: number) =>
  turn === 0
    ? { calls: [['a', 'look', {}] as const, ['b', 'send', {}] as const] }
    : { text: 'both are done' };

const begun = (folders: Folders, name: string): number =>
  readLines<Line>(ledgerOf(folders)).filter(({ tool: done, is }) => done === name && is === 'begin').length;

/** A call of `send` whose outcome is unknown: what it has done is looked up in its ledger. */
async function decide(brain: Orchestrator, folders: Folders): Promise<void> {
  const { jobs } = await brain.list({ state: 'stale' } as never);
  for (const { job_id: id } of jobs) {
    const { payload } = await brain.get(id);
    const { tool: name } = payload as { tool?: string };
    if (name !== 'send') throw new Error(`"${id}" is held, and may be repeated`);
    const { state } = await runView(RUN, (job) => brain.get(job));
    if (state !== 'needs_decision') throw new Error(`the run is ${state} while a call of it is held`);
    if (begun(folders, 'send') === 0) await brain.resolve(id, { as: 'retry' });
    else await brain.resolve(id, { as: 'succeeded', result: { ok: true, text: 'send is done' } });
  }
}

async function play(brain: Orchestrator, { folders, sleep }: Played): Promise<void> {
  await brain.submit({ job_id: RUN, type: 'agent', payload: { agent: 'helper', input: 'do both' } });
  while (!isTerminal((await brain.get(RUN)).state)) {
    await decide(brain, folders);
    await sleep(50);
  }
}

async function problems(brain: Orchestrator, folders: Folders): Promise<string[]> {
  const found: string[] = [];
  const sent = begun(folders, 'send');
  const looked = begun(folders, 'look');
  if (sent !== 1) found.push(`"send" was called ${sent} times`);
  // A call that only looks is repeated where its outcome is unknown, which is once after one death.
  if (looked < 1 || looked > 2) found.push(`"look" was called ${looked} times`);
  const { state, result } = await brain.get(RUN);
  const { reply, error } = (result ?? {}) as Partial<RunResult>;
  if (reply !== 'both are done' || error !== null)
    found.push(`the run is ${state}, and says ${JSON.stringify(result)}`);
  return found;
}

export const agentRun: World = {
  options: (env, played) => ({
    backends: (brain) => {
      const agents = new Agents({
        env,
        logger: undefined,
        agents: [{ name: 'helper', model: 'scripted', tools: ['look', 'send'] }],
        tools: [tool('look', 'pure', 20, played), tool('send', 'effectful', 30, played)],
      });
      const model = new ScriptedModel((turn: number, _heard: Heard) => script(turn));
      return [new FunctionBackend(env, model.backend()), ...agents.backends(runReads(brain))];
    },
  }),
  play,
  done: (folders) => readLines<Line>(ledgerOf(folders)).length,
  atLeast: 4,
  problems,
};
