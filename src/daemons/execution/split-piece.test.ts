import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MAX_PROGRESS_CHARS } from '../../model/worker-wire.ts';
import { splitPiece } from './split-piece.ts';

const texts = (piece: { text: string }): string[] =>
  splitPiece(piece).map((part) => ('text' in part ? part.text : assert.fail('it is text')));

test('a text that a server sends as one large piece is split into events that the brain takes', () => {
  for (const character of ['a', '\u0001', '😀']) {
    const text = `x${character.repeat(100_000)}`;
    const parts = texts({ text });
    assert.equal(parts.join(''), text);
    for (const part of parts) {
      assert.ok(JSON.stringify({ t: part, i: 1_000_000 }).length <= MAX_PROGRESS_CHARS);
      assert.ok(part.isWellFormed(), 'no character is cut in two');
    }
  }
  assert.deepEqual(splitPiece({ text: 'short' }), [{ text: 'short' }]);
});

test('the arguments of a large tool call are split as a server would stream them', () => {
  const args = JSON.stringify({ code: 'line\n'.repeat(50_000) });
  const small = { index: 0, id: 'c0', type: 'function', function: { name: 'f', arguments: '{}' } };
  const large = { index: 1, id: 'c1', type: 'function', function: { name: 'g', arguments: args } };
  const parts = splitPiece({ toolCalls: [small, large] }).flatMap((part) =>
    'toolCalls' in part ? (part.toolCalls as (typeof large)[]) : assert.fail('they are calls'),
  );
  assert.deepEqual(parts[0], small);
  assert.deepEqual([parts[1]?.id, parts[1]?.function.name], ['c1', 'g']);
  assert.ok(parts.slice(1).every(({ index }) => index === 1));
  assert.equal(
    parts
      .slice(1)
      .map((part) => part.function.arguments)
      .join(''),
    args,
  );
  for (const part of parts) assert.ok(JSON.stringify([part]).length <= MAX_PROGRESS_CHARS);
});
