/** What an agent of the configuration may say of its tools. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AgentConfig } from '../config/agents.ts';
import { realEnv } from '../kit/env/real.ts';
import { agentToolSet } from './agent-tools.ts';

const refusalOf = (agent: Partial<AgentConfig>) => () =>
  agentToolSet(
    { name: 'helper', model: 'small', ...agent },
    { env: realEnv(), folders: {}, own: [], sandbox: { works: true }, mcp: undefined, agents: [] },
  );

test('tools that an agent does not have cannot be named, approved or demanded', () => {
  const refused = { code: 'INVALID_PARAMS' };
  assert.throws(refusalOf({ tools: ['no_such_tool'] }), refused);
  assert.throws(refusalOf({ tools: ['current_time'], approve: ['machine_health'] }), {
    ...refused,
    message: 'the agent "helper" has no tool "machine_health" that could be approved',
  });
  const needs = (setting: string) => ({ ...refused, message: new RegExp(`needs the setting ${setting} `) });
  assert.throws(refusalOf({ tools: ['read_file'] }), needs('files.root'));
  assert.throws(refusalOf({ tools: ['write_file'], files: { root: '.' } }), needs('files.write: true'));
  assert.throws(refusalOf({ tools: ['http_get'] }), needs('http.hosts'));
  assert.throws(refusalOf({ tool_choice: 'required' }), {
    ...refused,
    message: 'the agent "helper" must call a tool and has none',
  });
  assert.doesNotThrow(refusalOf({ tools: ['current_time'], tool_choice: 'required' }));
});
