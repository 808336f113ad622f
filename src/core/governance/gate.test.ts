import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DEFAULT_POLICY, type GovernancePolicy, type Mode } from '../../model/governance.ts';
import { GovernanceGate, type GovernedJob, type GovernedTool } from './gate.ts';

const gateOf = (policy: Partial<GovernancePolicy>): GovernanceGate =>
  new GovernanceGate({ ...DEFAULT_POLICY, ...policy });

const call = (
  name: string,
  category: string | undefined,
  agents: readonly string[] = ['a'],
  more: Partial<GovernedTool> = {},
): GovernedJob => ({
  type: 'tool',
  tenant: 'default',
  model: undefined,
  agents,
  tool: { name, category, isApproved: false, ...more },
});

const model = (name: string): GovernedJob => ({
  type: 'inference',
  tenant: 'default',
  model: name,
  agents: [],
});

const verdictOf = (gate: GovernanceGate, job: GovernedJob, mode: Mode = 'NORMAL'): string => {
  const verdict = gate.judge(mode, job);
  return verdict.is === 'allow' ? 'allow' : `${verdict.is} ${verdict.rule}`;
};

test('a mode allows the categories of tools that it lists, and asks a person for those it wants approved', () => {
  const gate = gateOf({});
  assert.equal(verdictOf(gate, call('write_file', 'write')), 'allow');
  assert.equal(verdictOf(gate, call('write_file', 'write'), 'ALERT'), 'approve mode:ALERT');
  assert.equal(verdictOf(gate, call('read_file', 'read'), 'ALERT'), 'allow');
  assert.equal(verdictOf(gate, call('write_file', 'write'), 'DEGRADED'), 'deny mode:DEGRADED');
  assert.equal(verdictOf(gate, call('read_file', 'read'), 'DEGRADED'), 'allow');
  const byName = gateOf({ modes: { ...DEFAULT_POLICY.modes, ALERT: { approve: ['read_file'] } } });
  assert.equal(verdictOf(byName, call('read_file', 'read'), 'ALERT'), 'approve mode:ALERT');
  assert.equal(verdictOf(byName, call('list_files', 'read'), 'ALERT'), 'allow');
});

test('G1: a denial goes before an approval, one that is asked for and one that was given', () => {
  const rules = [
    { name: 'ask', effect: 'approve', tools: ['write_file'] },
    { name: 'never', effect: 'deny', tools: ['write_*'], agents: ['intern'] },
  ] as const;
  const gate = gateOf({ rules });
  assert.equal(verdictOf(gate, call('write_file', 'write', ['clerk'])), 'approve rule:ask');
  const approved = { isApproved: true };
  assert.equal(verdictOf(gate, call('write_file', 'write', ['clerk'], approved)), 'allow');
  assert.equal(verdictOf(gate, call('write_file', 'write', ['intern'])), 'deny rule:never');
  assert.equal(verdictOf(gate, call('write_file', 'write', ['intern'], approved)), 'deny rule:never');
  assert.equal(
    verdictOf(gate, call('write_file', 'write', ['x'], approved), 'DEGRADED'),
    'deny mode:DEGRADED',
  );
});

test('G2: a call has at most the rights of every agent above it', () => {
  const rights = [
    { agent: 'reader', categories: ['read'] },
    { agent: 'writer', categories: ['read', 'write'] },
  ];
  const gate = gateOf({ rights });
  assert.equal(verdictOf(gate, call('write_file', 'write', ['writer'])), 'allow');
  assert.equal(verdictOf(gate, call('write_file', 'write', ['reader'])), 'deny rights:reader');
  assert.equal(verdictOf(gate, call('write_file', 'write', ['reader', 'writer'])), 'deny rights:reader');
  assert.equal(verdictOf(gate, call('write_file', 'write', ['writer', 'reader'])), 'deny rights:reader');
  assert.equal(verdictOf(gate, call('read_file', 'read', ['writer', 'reader'])), 'allow');
  assert.equal(verdictOf(gate, call('write_file', 'write', ['free', 'writer'])), 'allow');
});

test('G3: a tool of which nobody says what it does is denied where rules are in force', () => {
  const gate = gateOf({ rules: [{ name: 'r', effect: 'deny', tools: ['x'] }] });
  assert.equal(verdictOf(gate, call('y', undefined)), 'deny category');
});

test('G3: what is below an agent that is gone may call nothing, also where no rules are in force', () => {
  const gate = gateOf({ agents: ['writer'] });
  assert.equal(verdictOf(gate, call('write_file', 'write', ['writer'])), 'allow');
  assert.equal(verdictOf(gate, call('write_file', 'write', ['gone', 'writer'])), 'deny rights:gone');
  assert.equal(verdictOf(gate, model('m')), 'allow');
});

test('a rule is about the calls that match each of its lists', () => {
  const rule = (lists: object) => gateOf({ rules: [{ name: 'r', effect: 'deny', ...lists }] });
  const job = { ...call('t1', 'read', ['top', 'low']), model: 'm' };
  const hits: readonly object[] = [
    { tools: ['t1'] },
    { tools: ['x', 't*'] },
    { categories: ['read'] },
    { agents: ['top'] },
    { agents: ['low'] },
    { types: ['tool'] },
    { models: ['m'] },
    { tenants: ['default'] },
    { modes: ['NORMAL'] },
    { tools: ['t1'], agents: ['low'], modes: ['NORMAL', 'ALERT'] },
  ];
  const misses: readonly object[] = [
    { tools: ['t'] },
    { categories: ['write'] },
    { agents: ['other'] },
    { types: ['inference'] },
    { models: ['n'] },
    { tenants: ['acme'] },
    { modes: ['ALERT'] },
    { tools: ['t1'], agents: ['other'] },
  ];
  for (const lists of hits) assert.equal(verdictOf(rule(lists), job), 'deny rule:r', JSON.stringify(lists));
  for (const lists of misses) assert.equal(verdictOf(rule(lists), job), 'allow', JSON.stringify(lists));
});

test('rules hold for calls of models and other jobs too', () => {
  const gate = gateOf({
    rules: [{ name: 'no-big', effect: 'deny', models: ['big-*'], reason: 'too dear' }],
  });
  assert.equal(verdictOf(gate, model('big-1')), 'deny rule:no-big');
  const verdict = gate.judge('NORMAL', model('big-1'));
  assert.match(verdict.is === 'deny' ? verdict.message : '', /"no-big" forbids it: too dear/);
  assert.equal(verdictOf(gate, model('small')), 'allow');
});

test('a mode without rules, rights, categories and approvals is open: nobody need look', () => {
  assert.ok(gateOf({}).isOpen('NORMAL') && gateOf({}).isOpen('LOCKDOWN'));
  assert.ok(!gateOf({}).isOpen('DEGRADED') && !gateOf({}).isOpen('ALERT'));
  assert.ok(!gateOf({ rules: [{ name: 'r', effect: 'deny', tools: ['x'] }] }).isOpen('NORMAL'));
  assert.ok(!gateOf({ rights: [{ agent: 'a', categories: [] }] }).isOpen('NORMAL'));
});
