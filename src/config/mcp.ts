/** The list `mcp`: servers of the Model Context Protocol whose tools agents may call (docs/mcp-tools.md). */
import { type Static, Type } from 'typebox';
import { isHttpUrl } from './address.ts';
import { section } from './section.ts';

/** Without `_`, so that the name of a tool, `server__tool`, has one meaning. */
export const MCP_SERVER_NAME = '^[A-Za-z0-9][A-Za-z0-9-]{0,31}$';

const VARIABLE = '^[A-Za-z_][A-Za-z0-9_]{0,255}$';
const ToolName = Type.String({ minLength: 1, maxLength: 128 });
const ms = (minimum: number) => Type.Optional(Type.Integer({ minimum, maximum: 86_400_000 }));

export const McpServerSchema = section({
  name: Type.String({ pattern: MCP_SERVER_NAME, expected: 'a name of up to 32 letters, digits and -' }),
  command: Type.Optional(
    Type.Array(Type.String(), {
      minItems: 1,
      maxItems: 1000,
      expected: 'a list of words, the program first',
    }),
  ),
  env: Type.Optional(
    Type.Array(Type.String({ pattern: VARIABLE, expected: 'the name of an environment variable' }), {
      maxItems: 100,
      expected: 'a list of names of environment variables',
    }),
  ),
  folder: Type.Optional(Type.String({ minLength: 1, expected: 'the path of a folder' })),
  url: Type.Optional(
    Type.Refine(Type.String({ expected: 'an http or https URL without user name and password' }), isHttpUrl),
  ),
  key_env: Type.Optional(
    Type.String({
      pattern: VARIABLE,
      expected: 'the name of the environment variable that holds the key',
    }),
  ),
  allow: Type.Optional(Type.Array(ToolName, { maxItems: 1000, expected: 'a list of names of tools' })),
  effects: Type.Optional(
    Type.Record(ToolName, Type.Enum(['pure', 'idempotent', 'effectful']), {
      expected: 'pure, idempotent or effectful for names of tools',
    }),
  ),
  trust_hints: Type.Optional(Type.Boolean()),
  slots: Type.Optional(Type.Integer({ minimum: 1, maximum: 1000 })),
  timeout_ms: ms(100),
  connect_timeout_ms: ms(100),
  restart_min_ms: ms(1),
  restart_max_ms: ms(1),
  max_output_bytes: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_048_576 })),
  max_message_bytes: Type.Optional(Type.Integer({ minimum: 1024, maximum: 268_435_456 })),
});
export type McpServerConfig = Static<typeof McpServerSchema>;

export const McpSchema = Type.Array(McpServerSchema, {
  default: [],
  maxItems: 100,
  expected: 'a list of servers, with a name and a command or url each',
});
