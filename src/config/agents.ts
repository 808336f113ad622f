/** The list `agents`: who they ask, what they are told, and what their tools may reach (docs/agents.md). */
import { type Static, Type } from 'typebox';
import { AgentDefinition } from '../model/agent.ts';
import { section } from './section.ts';

const FilesSchema = section({
  root: Type.String({ minLength: 1, expected: 'the path of a folder' }),
  write: Type.Optional(Type.Boolean()),
});

const HOST =
  '^((\\*\\.)?[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?|\\[[0-9A-Fa-f:.]+\\])(:[0-9]{1,5})?$';
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

export const AgentSchema = section({
  ...AgentDefinition.properties,
  files: Type.Optional(FilesSchema),
  http: Type.Optional(HttpSchema),
});
export type AgentConfig = Static<typeof AgentSchema>;

export const AgentsSchema = Type.Array(AgentSchema, {
  default: [],
  maxItems: 1000,
  expected: 'a list of agents, with a name and a model each',
});
