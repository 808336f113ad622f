/** Schemas of the answers about MCP servers and their tools. */
import { Type } from 'typebox';
import { answerObject, type Shape } from './shape.ts';

const optional = Type.Optional;
const Definition = Type.Unknown({ description: 'The definition, as the server has written it' });

export const McpToolView = answerObject('McpTool', {
  tool: Type.String({ description: 'The name that the server has for it' }),
  name: optional(
    Type.String({ description: 'The name in `tools` of agents; absent where models cannot write the name' }),
  ),
  state: Type.Enum(['allowed', 'changed', 'missing', 'unavailable'], {
    description:
      'allowed: it can be called; changed: the server offers another definition, which nobody has allowed; missing: the server offers it no more; unavailable: the server is not connected',
  }),
  effect: Type.Enum(['pure', 'idempotent', 'effectful']),
  hash: Type.String({ description: 'The hash of the definition that was allowed' }),
  definition: Definition,
  allowed_at: Type.Number(),
  allowed_by: Type.String({ description: 'first-seen: nobody knew the tool before' }),
  offered: optional(
    Type.Object(
      { hash: Type.String(), definition: Definition },
      { description: 'What the server offers by now, where it has changed' },
    ),
  ),
});
export type McpToolView = Shape<typeof McpToolView>;

export const McpServerView = answerObject('McpServer', {
  name: Type.String(),
  transport: Type.Enum(['stdio', 'http']),
  connected: Type.Boolean(),
  protocol: optional(Type.String({ description: 'The version of the protocol, while it is connected' })),
  restarts: Type.Number({ description: 'Connections after the first one' }),
  last_error: optional(Type.String({ description: 'Why it is not connected' })),
  tools: Type.Array(McpToolView),
});
export type McpServerView = Shape<typeof McpServerView>;

export const McpServerList = answerObject('McpServers', { servers: Type.Array(McpServerView) });
export type McpServerList = Shape<typeof McpServerList>;

export const AllowMcpTool = Type.Object(
  {
    tool: Type.String({ minLength: 1, maxLength: 128 }),
    hash: Type.String({ minLength: 1, maxLength: 128 }),
  },
  { additionalProperties: false },
);
