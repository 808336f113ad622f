import assert from 'node:assert/strict';
import { test } from 'node:test';
import { OrchdError } from '../model/errors.ts';
import { loadConfig } from './load.ts';

const refusal = (text: string): string => {
  try {
    loadConfig({ text: `governance:\n${text}` });
  } catch (error) {
    assert.ok(error instanceof OrchdError && error.code === 'CONFIG_INVALID');
    return error.message;
  }
  return 'taken';
};

test('a rule file that cannot be meant is refused with its place: unknown modes and metrics, contradictions', () => {
  const refused: Record<string, RegExp> = {
    '  rules: [{name: r, effect: deny, modes: [PANIC]}]': /governance\.rules\[0\]\.modes/,
    '  modes: [{mode: CALM}]': /governance\.modes\[0\]\.mode/,
    '  modes: [{mode: ALERT}, {mode: ALERT}]': /the mode ALERT is there twice/,
    '  modes: [{mode: ALERT, categories: [read], approve: [write]}]': /"write" can be approved, and is none/,
    '  triggers: [{name: t, metric: humidity, above: 1, for_ms: 1, to: ALERT}]': /triggers\[0\]\.metric/,
    '  triggers: [{name: t, metric: queued_jobs, above: 1, for_ms: 1, to: NORMAL}]': /triggers\[0\]\.to/,
    '  triggers: [{name: t, metric: queued_jobs, above: 1, for_ms: 1, to: ALERT}, {name: t, metric: queued_jobs, above: 2, for_ms: 1, to: ALERT}]':
      /two triggers have the name "t"/,
    '  modes: [{mode: LOCKDOWN, max_tokens: 9}]': /in LOCKDOWN nothing starts: say running: \{runs: 0/,
    '  modes: [{mode: LOCKDOWN, running: {runs: 0, models: 0, tools: 0}}]': /modes\[0\]\.mode/,
    '  rules: [{name: r, effect: approve, models: [big]}]':
      /rules\[0\]\.effect: only calls of tools and agents/,
    '  rules: [{name: r, effect: approve, types: [inference]}]': /only calls of tools and agents/,
    '  rules: [{name: r, effect: allow}]': /rules\[0\]\.effect/,
    '  rules: [{name: r, effect: approve, critical: true}]': /cannot be critical/,
    '  rules: [{name: r, effect: deny}, {name: r, effect: deny, tools: [x]}]': /two rules have the name "r"/,
    '  rules: [{name: a, effect: deny, tools: [x, y]}, {name: b, effect: approve, tools: [y, x]}]':
      /contradicts the rule "a"/,
    '  rules: [{name: r, effect: deny, tool: [x]}]': /governance\.rules\[0\]/,
  };
  for (const [text, message] of Object.entries(refused)) assert.match(refusal(text), message, text);
});

test('a rule file that can be meant is taken', () => {
  for (const text of [
    '  modes: [{mode: LOCKDOWN, running: {runs: 0, models: 0, tools: 0}, per_minute: {others: 0}}]',
    '  rules: [{name: r, effect: approve, types: [tool, inference]}]',
    '  rules: [{name: r, effect: approve, types: ["a*"]}]',
    '  rules: [{name: r, effect: approve, agents: [a]}]',
  ])
    assert.equal(refusal(text), 'taken', text);
});

test('a written mode replaces its default as a whole; categories of agents are their rights', () => {
  const { policy, triggers } = loadConfig({
    text: `
agents:
  - {name: reader, model: m, categories: [read]}
  - {name: free, model: m}
governance:
  modes: [{mode: ALERT, per_minute: {tools: 15}}]
  triggers: [{name: t, metric: queued_jobs, above: 1, for_ms: 5, to: ALERT}]
`,
  }).governance;
  assert.deepEqual(policy.modes.ALERT.perMinute, { tools: 15 });
  assert.equal(policy.modes.ALERT.approve, undefined);
  assert.equal(policy.modes.LOCKDOWN.running?.runs, 0);
  assert.deepEqual(policy.rights, [{ agent: 'reader', categories: ['read'] }]);
  assert.deepEqual(triggers, [{ name: 't', metric: 'queued_jobs', above: 1, forMs: 5, to: 'ALERT' }]);
});
