import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { derivedRef, formatModelRef, parseModelRef, plainRef } from './model-ref.ts';

const DIGEST = '0123456789abcdef'.repeat(4);

test('every kind of reference is parsed and formatted back to the same text', () => {
  const refs = {
    'hf:org/repo': { kind: 'hf', org: 'org', repo: 'repo' },
    'hf:org/repo@main': { kind: 'hf', org: 'org', repo: 'repo', rev: 'main' },
    'hf:o.1/r_2-x@refs/pr/1::file=q4/model-00001-of-00002.gguf': {
      kind: 'hf',
      org: 'o.1',
      repo: 'r_2-x',
      rev: 'refs/pr/1',
      file: 'q4/model-00001-of-00002.gguf',
    },
    'file:/models/a b/ü.gguf': { kind: 'file', path: '/models/a b/ü.gguf' },
    'demo:anything': { kind: 'engine', scheme: 'demo', name: 'anything' },
    'openai:gpt-5/mini': { kind: 'engine', scheme: 'openai', name: 'gpt-5/mini' },
    'llama3:8b': { kind: 'alias', name: 'llama3:8b' },
    small: { kind: 'alias', name: 'small' },
    'file:/m.gguf::adapter=/l.gguf': { kind: 'file', path: '/m.gguf', adapter: { path: '/l.gguf' } },
    [`hf:o/r@v::file=m.gguf::adapter=/a b/l@1.gguf@sha256:${DIGEST}::variant=fp16`]: {
      ...{ kind: 'hf', org: 'o', repo: 'r', rev: 'v', file: 'm.gguf' },
      ...{ adapter: { path: '/a b/l@1.gguf', sha256: DIGEST }, variant: 'fp16' },
    },
    'demo:x::variant=Q8_0': { kind: 'engine', scheme: 'demo', name: 'x', variant: 'Q8_0' },
  };
  for (const [text, ref] of Object.entries(refs)) {
    assert.deepEqual(parseModelRef(text), ref, text);
    assert.equal(formatModelRef(parseModelRef(text)), text);
  }
});

test('malformed or unsafe references are refused', () => {
  const refused = [
    '',
    'hf:',
    'hf:org',
    'hf:org/',
    'hf:/repo',
    'hf:org/repo/more',
    'hf:../repo',
    'hf:org/..',
    'hf:org/re..po',
    'hf:-org/repo',
    'hf:org/repo@',
    'hf:org/repo@../../x',
    'hf:org/repo@-x',
    'hf:org/repo::file=',
    'hf:org/repo::file=/etc/passwd',
    'hf:org/repo::file=../x.gguf',
    'hf:org/repo::file=a//b.gguf',
    'hf:org/repo::file=.hidden',
    'hf:org/repo::other=x',
    'hf:org%2frepo/x',
    'hf:org/a--b',
    'hf:org/repo\u0000',
    'hf:org/re po',
    'file:relative.gguf',
    'file:',
    'file:/',
    'file:/models/../etc/x.gguf',
    'file:/models/./x.gguf',
    'file:/models//x.gguf',
    'file:/models/%2e%2e/x.gguf',
    'file:/models\\x.gguf',
    'file:/models/x\n.gguf',
    'file:/models/x\u2028.gguf',
    `file:/${'x'.repeat(300)}.gguf`,
    'demo:',
    'demo:-x',
    'demo:a/../b',
    '--model',
    '../x',
    '/models/x.gguf',
    'a\ud800',
    'file:/m.gguf::adapter=',
    'file:/m.gguf::adapter=l.gguf',
    'file:/m.gguf::adapter=/../l.gguf',
    'file:/m.gguf::adapter=/l.gguf::adapter=/k.gguf',
    'file:/m.gguf::adapter=/l.gguf@sha256:00',
    'file:/m.gguf::variant=',
    'file:/m.gguf::variant=-x',
    'file:/m.gguf::variant=a b',
    'file:/m.gguf::variant=a::variant=b',
    'file:/m.gguf::variant=a::adapter=/l.gguf',
    '::adapter=/l.gguf',
    'x'.repeat(1025),
  ];
  for (const text of refused) {
    assert.throws(() => parseModelRef(text), { code: 'INVALID_PARAMS' }, JSON.stringify(text));
  }
});

test('an adapter and a variant are added to a model that has none, and taken away again', () => {
  const parts = { adapter: `file:/l.gguf@sha256:${DIGEST}`, variant: 'fp16' };
  const derived = derivedRef('hf:o/r@v::file=m.gguf', parts);
  const text = `hf:o/r@v::file=m.gguf::adapter=/l.gguf@sha256:${DIGEST}::variant=fp16`;
  assert.equal(formatModelRef(derived), text);
  assert.deepEqual(parseModelRef(text), derived);
  assert.equal(formatModelRef(plainRef(derived)), 'hf:o/r@v::file=m.gguf');
  assert.throws(() => derivedRef(text, { variant: 'x' }), { details: { field: 'model_id' } });
});

test('any text is either refused with INVALID_PARAMS, or formatted back to itself', () => {
  const piece = fc.constantFrom(
    'hf:',
    'file:',
    'demo:',
    '/',
    '@',
    '::file=',
    '::adapter=',
    '::variant=',
    '..',
    '-',
    'a',
    '.gguf',
    '\0',
    '%',
  );
  const text = fc.oneof(
    fc.string(),
    fc.array(piece).map((pieces) => pieces.join('')),
  );
  fc.assert(
    fc.property(text, (given) => {
      let written: string;
      try {
        written = formatModelRef(parseModelRef(given));
      } catch (error) {
        assert.equal((error as { code?: string }).code, 'INVALID_PARAMS');
        return;
      }
      assert.equal(written, given);
      assert.doesNotMatch(written, /(^|\/)\.\.?(\/|$)|^-|\0/);
    }),
  );
});
