/**
 * An agent whose model asks for two tools at once, `look` and `send`, of which `send` must not be called twice. Both note
 * what they do in a ledger outside the brain.
 */
import type { Tool, ToolContext } from '../../src/agents/tools/tool.ts';
import { type Said, ScriptedModel } from '../fakes/scripted-model.ts';
import { unmarked } from '../fakes/unmarked.ts';
import { AppendFile, readLines } from './append-file.ts';

export const HELPER = { name: 'helper', model: 'scripted', tools: ['look', 'send'] } as const;
/** It calls the other agent, and says what that one has said. */
export const BOSS = {
  name: 'boss',
  model: 'scripted',
  instructions: 'Delegate.',
  tools: ['helper'],
} as const;
export const REPLY = 'both are done';
const PARAMETERS = { type: 'object', properties: {}, additionalProperties: false };

interface Line {
  readonly tool: string;
  readonly is: 'begin' | 'end';
  /** The job of the call. */
  readonly job: string;
}

/** The ledger is open for each line only: a process that is killed leaves nothing to close. */
function note(ledger: string, line: Line): void {
  const file = new AppendFile(ledger);
  file.add(line);
  file.close();
}

/** `ledger` is a file. */
export function notedTools(ledger: string, sleep: (ms: number) => Promise<void>): readonly Tool[] {
  const tool = (name: string, effect: Tool['effect'], ms: number): Tool => ({
    name,
    description: `The tool ${name}.`,
    parameters: PARAMETERS,
    effect,
    async run(_args: object, { jobId: job }: ToolContext) {
      note(ledger, { tool: name, is: 'begin', job });
      await sleep(ms);
      note(ledger, { tool: name, is: 'end', job });
      return `${name} is done`;
    },
  });
  return [tool('look', 'pure', 20), tool('send', 'effectful', 30)];
}

const twoTools = (turn: number): Said =>
  turn === 0
    ? {
        calls: [
          ['a', 'look', {}],
          ['b', 'send', {}],
        ],
      }
    : { text: REPLY };

export const twoToolModel = (): ScriptedModel => new ScriptedModel(twoTools);

/** The model of both agents, which are told apart by their instructions. */
export const delegatingModel = (): ScriptedModel =>
  new ScriptedModel((turn, { messages }) => {
    const isBoss = messages[0]?.content.startsWith(BOSS.instructions);
    if (!isBoss) return twoTools(turn);
    if (turn === 0) return { calls: [['h', 'helper', { input: 'do both' }]] };
    return { text: unmarked(messages.at(-1)?.content ?? '') };
  });

/** How often a tool was begun and how often it has ended, in one run or in all. */
export function callsOf(ledger: string, tool: string, run = ''): { begun: number; ended: number } {
  const lines = readLines<Line>(ledger).filter((line) => line.tool === tool && line.job.startsWith(run));
  const count = (is: Line['is']): number => lines.filter((line) => line.is === is).length;
  return { begun: count('begin'), ended: count('end') };
}
