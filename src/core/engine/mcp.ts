/**
 * Events of the tools of MCP servers: which definitions are allowed, and which calls a server runs as tasks.
 *
 * D1  A definition that was recorded changes by an order of a person alone: what a server offers never replaces it.
 */
import { OrchdError } from '../../model/errors.ts';
import {
  FIRST_SEEN,
  MAX_DEFINITION_CHARS,
  MAX_PINS,
  type McpDefinition,
  type McpPinRecord,
  type McpTaskRecord,
  pinId,
} from '../../model/mcp-records.ts';
import { type EngineTurn, type Handlers, needsDiskSpace } from './handler.ts';

export type McpEvent =
  /** Records the definitions of tools that were never seen before. The reply is how many those are. */
  | { readonly type: 'mcp-seen'; readonly definitions: readonly McpDefinition[] }
  /** A person allows this definition. */
  | { readonly type: 'mcp-allow'; readonly definition: McpDefinition; readonly by: string }
  | { readonly type: 'mcp-task'; readonly token: string; readonly task: Omit<McpTaskRecord, 'v' | 'at'> }
  | { readonly type: 'mcp-task-ended'; readonly token: string };

/** Above this many, tasks of attempts that are no longer open are dropped: nobody has acknowledged their ends. */
const MAX_TASKS = 1000;

export const mcp = {
  'mcp-seen': needsDiskSpace((turn, { definitions }) => {
    const { mcp_pin: pins } = turn.state.tables;
    const added = definitions.filter(({ server, tool }) => !pins.get(pinId(server, tool)));
    if (pins.size + added.length > MAX_PINS)
      throw new OrchdError('INVALID_PARAMS', `the tools of MCP servers are more than ${MAX_PINS}`);
    for (const each of added) pin(turn, each, FIRST_SEEN);
    return added.length;
  }),
  'mcp-allow': needsDiskSpace((turn, { definition, by }) => pin(turn, definition, by)),
  'mcp-task': (turn, { token, task }) => {
    dropOldTasks(turn);
    turn.put('mcp_task', token, { v: 1, at: turn.now, ...task }, { is: 'set', by: 'mcp' });
  },
  'mcp-task-ended': (turn, { token }) => {
    if (turn.state.tables.mcp_task.get(token)) turn.put('mcp_task', token, null, { is: 'set', by: 'mcp' });
  },
} satisfies Handlers<McpEvent>;

function pin(turn: EngineTurn, { server, tool, hash, definition }: McpDefinition, by: string): McpPinRecord {
  if (definition.length > MAX_DEFINITION_CHARS)
    throw new OrchdError(
      'INVALID_PARAMS',
      `the definition of "${tool}" is longer than ${MAX_DEFINITION_CHARS} characters`,
    );
  const record: McpPinRecord = { v: 1, server, tool, hash, definition, at: turn.now, by };
  turn.put('mcp_pin', pinId(server, tool), record, { is: 'set', by });
  return record;
}

function dropOldTasks(turn: EngineTurn): void {
  const { mcp_task: tasks } = turn.state.tables;
  if (tasks.size < MAX_TASKS) return;
  for (const [token] of [...tasks.entries()])
    if (!turn.state.open.has(token)) turn.put('mcp_task', token, null, { is: 'set', by: 'mcp' });
}
