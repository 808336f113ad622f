import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { boundedCall, CALL_FAULTS, faultNotes } from './call-faults.ts';

test('docs/agents.md has every code of a call that was not made', () => {
  const page = readFileSync(new URL('../../../docs/agents.md', import.meta.url), 'utf8');
  for (const code of [...CALL_FAULTS, 'DENIED', 'TOOL_FAILED'])
    assert.ok(page.includes(`| \`${code}\` |`), code);
});

test('calls with the same tool and fault have one note, with their number', () => {
  const notes = faultNotes([
    { tool: 'a', code: 'UNKNOWN_TOOL' },
    { tool: 'b', code: 'UNKNOWN_TOOL' },
    { tool: 'a', code: 'UNKNOWN_TOOL' },
    { code: 'TOO_MANY_CALLS' },
  ]);
  assert.deepEqual(
    notes.map(({ tool, error, count }) => [tool, error, count]),
    [
      ['a', 'UNKNOWN_TOOL', 2],
      ['b', 'UNKNOWN_TOOL', 1],
      [undefined, 'TOO_MANY_CALLS', 1],
    ],
  );
});

test('a call keeps the signature of its provider up to a length, and nothing else that is not needed', () => {
  const call = { id: 'c', type: 'function' as const, function: { name: 'look', arguments: '{}' } };
  const extra_content = { google: { thought_signature: 'c2ln' } };
  assert.deepEqual(boundedCall({ ...call, extra_content, more: 1 } as never), { ...call, extra_content });
  assert.deepEqual(boundedCall({ ...call, extra_content: 'x'.repeat(70_000) } as never), call);
});
