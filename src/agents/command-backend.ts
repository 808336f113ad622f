/** The backend for the calls of tools that are commands: jobs of type TOOL_TYPE with the kind of backend COMMAND_KIND. */
import { CommandBackend } from '../backends/local/command/command.ts';
import type { CommandBackendOptions, CommandOf, CommandOutcome } from '../backends/local/command/options.ts';
import type { Env } from '../kit/env/env.ts';
import { TOOL_TYPE, type ToolFailure, type ToolResult } from '../model/run-jobs.ts';

export const COMMAND_BACKEND = 'agent-commands';

/** Commands that run at the same time. */
const SLOTS = 16;

export type CommandPlace = Pick<CommandBackendOptions, 'folder' | 'node' | 'isCopy'>;

export const commandBackend = (env: Env, place: CommandPlace, commandOf: CommandOf): CommandBackend =>
  new CommandBackend(env, {
    ...place,
    name: COMMAND_BACKEND,
    slots: SLOTS,
    types: { [TOOL_TYPE]: commandOf },
    outcomeOf: toolOutcome,
  });

const FAILURES: Readonly<Record<string, ToolFailure>> = {
  exit: 'failed',
  start: 'failed',
  timeout: 'timeout',
  output: 'output',
};

/**
 * A command that has failed has a result for the model, like a function that throws: the queue does not try it again. A
 * start that failed because the machine lacks something is tried again.
 */
export const toolOutcome: CommandOutcome = (outcome, why) => {
  const failure = FAILURES[why];
  if (outcome.ok !== false || failure === undefined) return outcome;
  if (why === 'start' && outcome.error.retriable) return outcome;
  const result: ToolResult = {
    ok: false,
    text: outcome.error.message,
    why: failure,
    started: why !== 'start',
  };
  return { ok: true, resultText: JSON.stringify(result) };
};
