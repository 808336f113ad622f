/**
 * A command of the configuration as a tool. It is run by a command backend, whose keeper outlives the brain
 * (docs/decisions/0025), so that a command that has ended while the brain was dead is not run again.
 *
 * K1  A command that bubblewrap does not confine is run only after a person has allowed this call.
 */
import { isAbsolute, relative, resolve } from 'node:path';
import type { OfferedCommand } from '../../backends/local/command/options.ts';
import { bwrapWords, type Sandbox } from '../../backends/local/command/sandbox.ts';
import type { CommandToolConfig } from '../../config/agents.ts';
import { OrchdError } from '../../model/errors.ts';
import type { ToolArguments } from './arguments.ts';
import { DEFAULT_OUTPUT_BYTES, DEFAULT_TIMEOUT_MS } from './call.ts';
import { checkTemplate, wordFault, wordsFor } from './command-words.ts';
import type { JsonSchema, Tool } from './tool.ts';

const NO_PARAMETERS: JsonSchema = { type: 'object', properties: {}, additionalProperties: false };

export interface CommandTool extends Tool {
  /** The command of a call. `work`: an empty folder, for a command that has none of its own. */
  commandOf(args: ToolArguments, work: string): OfferedCommand;
}

export const isCommandTool = (tool: Tool | undefined): tool is CommandTool =>
  typeof (tool as CommandTool | undefined)?.commandOf === 'function';

export interface CommandToolParts {
  readonly sandbox: Sandbox;
  /** The folder of orchd's own data, which no command may see. */
  readonly data: string | undefined;
}

/** Throws INVALID_PARAMS for a command that cannot be used. */
export function commandTool(config: CommandToolConfig, { sandbox, data }: CommandToolParts): CommandTool {
  const {
    name,
    description,
    argv,
    parameters = NO_PARAMETERS,
    effect = 'effectful',
    network = false,
  } = config;
  const {
    timeout_ms: timeoutMs = DEFAULT_TIMEOUT_MS,
    max_output_bytes: maxOutputBytes = DEFAULT_OUTPUT_BYTES,
  } = config;
  checkTemplate(name, argv, parameters);
  const folder = config.folder === undefined ? undefined : resolve(config.folder);
  const read = (config.read ?? []).map((path) => resolve(path));
  for (const path of [...(folder === undefined ? [] : [folder]), ...read])
    if (data !== undefined && overlaps(path, data))
      throw new OrchdError('INVALID_PARAMS', `the command "${name}" may not see the data folder of orchd`, {
        field: 'folder',
      });
  return {
    name,
    description,
    parameters,
    effect,
    category: 'command',
    timeoutMs,
    maxOutputBytes,
    needsApproval: !sandbox.works,
    checkArguments: (args) => wordFault(argv, args),
    commandOf: (args, work) => {
      const place = folder ?? work;
      const words = wordsFor(argv, args);
      const confined = sandbox.works ? bwrapWords({ folder: place, read, network }) : [];
      return {
        argv: [...confined, ...words],
        cwd: place,
        env: { HOME: place, ...(sandbox.works && { TMPDIR: '/tmp' }) },
        input: JSON.stringify(args),
        timeoutMs,
      };
    },
    run: () => {
      throw new Error('a command is run by its backend');
    },
  };
}

/** Whether one of the two folders is the other one, or inside of it. */
const overlaps = (one: string, other: string): boolean => isInside(one, other) || isInside(other, one);

function isInside(path: string, folder: string): boolean {
  const way = relative(folder, path);
  return way !== '..' && !way.startsWith('../') && !isAbsolute(way);
}
