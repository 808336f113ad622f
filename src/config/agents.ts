/** The list `agents`: who they ask, what they are told, and what their tools may reach (docs/agents.md). */
import { type Static, Type } from 'typebox';
import { AGENT_NAME, AgentDefinition, PlanRule, TOOL_NAME } from '../model/agent.ts';
import { section } from './section.ts';

const FilesSchema = section({
  root: Type.String({ minLength: 1, expected: 'the path of a folder' }),
  write: Type.Optional(Type.Boolean()),
});

const HOST = '^((\\*\\.)?[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?|\\[[0-9A-Fa-f:.]+\\])(:[0-9]{1,5})?$';
const Hosts = Type.Array(
  Type.String({ pattern: HOST, expected: 'a host such as example.com, *.example.com or example.com:8443' }),
  {
    maxItems: 1000,
  },
);

const HttpSchema = section({
  hosts: Hosts,
  private_hosts: Type.Optional(Hosts),
});

/** A command that the agent has as a tool. */
const CommandToolSchema = section({
  name: Type.String({ pattern: TOOL_NAME, expected: 'a name of letters, digits, _ and -' }),
  description: Type.String({ minLength: 1, maxLength: 4000, expected: 'a text for the model' }),
  argv: Type.Array(Type.String(), {
    minItems: 1,
    maxItems: 1000,
    expected: 'a list of words, the program first',
  }),
  parameters: Type.Optional(
    Type.Record(Type.String(), Type.Unknown(), { expected: 'a JSON Schema of an object' }),
  ),
  effect: Type.Optional(Type.Enum(['pure', 'idempotent', 'effectful'])),
  folder: Type.Optional(Type.String({ minLength: 1, expected: 'the path of a folder' })),
  read: Type.Optional(
    Type.Array(Type.String({ minLength: 1 }), { maxItems: 100, expected: 'a list of paths' }),
  ),
  network: Type.Optional(Type.Boolean()),
  timeout_ms: Type.Optional(Type.Integer({ minimum: 100, maximum: 86_400_000 })),
  max_output_bytes: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_048_576 })),
});
export type CommandToolConfig = Static<typeof CommandToolSchema>;

export const AgentSchema = section({
  ...AgentDefinition.properties,
  name: Type.String({ pattern: AGENT_NAME, expected: 'a name of up to 64 letters, digits, _ and -' }),
  plan: Type.Optional(
    Type.Union([...PlanRule.anyOf], { expected: 'never, always or {min_characters: NUMBER}' }),
  ),
  commands: Type.Optional(
    Type.Array(CommandToolSchema, {
      maxItems: 64,
      expected: 'a list of commands, with a name, a description and an argv each',
    }),
  ),
  files: Type.Optional(FilesSchema),
  http: Type.Optional(HttpSchema),
});
export type AgentConfig = Static<typeof AgentSchema>;

export const AgentsSchema = Type.Array(AgentSchema, {
  default: [],
  maxItems: 1000,
  expected: 'a list of agents, with a name and a model each',
});
