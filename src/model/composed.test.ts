import assert from 'node:assert/strict';
import test from 'node:test';
import { composedText, compositionIn, isComposed, refsIn, withKnown } from './composed.ts';

const part = { ref: { bytes: 12 }, values: 3, links: 2 };

test('a composition is read back from its text, whatever its rest contains', () => {
  const composition = { parts: ['{"messages":[', part], rest: ',"a\nb"]}\ncomposed:1:' };
  assert.deepEqual(compositionIn(composedText(composition)), composition);
  assert.deepEqual(refsIn(composition), [part.ref]);
});

test('a JSON text is never taken for a composition', () => {
  for (const text of ['{}', '[]', '"composed:1:[]"', 'null', '12', '']) {
    assert.equal(isComposed(text), false);
    assert.equal(compositionIn(text), undefined);
  }
});

/** Characters that JSON writes in more than one way, and many of them. */
const LONG = 'a "quoted" line\n\tÜ🦊 \\ '.repeat(100);
const OTHER = 'another text, '.repeat(100);
const [first, second] = [{ bytes: 1 }, { bytes: 2 }];

/** The text of a composition whose slices are of these texts. */
const whole = (texts: ReadonlyMap<unknown, string>, { parts, rest }: ReturnType<typeof withKnown>): string =>
  parts
    .map((each) => {
      if (typeof each === 'string') return each;
      assert.ok('slice' in each);
      return texts.get(each.slice)?.slice(each.from, each.to);
    })
    .join('') + rest;

test('what known blobs say is named instead of written again', () => {
  const known = [
    { ref: first, text: JSON.stringify(LONG) },
    { ref: second, text: JSON.stringify({ ok: true, text: OTHER, short: 'x' }) },
  ];
  const text = JSON.stringify([
    { role: 'tool', content: `--- ${LONG} ---` },
    { role: 'tool', content: OTHER },
  ]);
  const composition = withKnown(text, known);
  assert.deepEqual(refsIn(composition), [first, second]);
  assert.ok(composedText(composition).length < 500);
  assert.equal(whole(new Map(known.map((each) => [each.ref, each.text])), composition), text);
  assert.deepEqual(compositionIn(composedText(composition)), composition);
});

test('what known blobs say otherwise, or say in few words, is written', () => {
  const text = JSON.stringify([{ content: LONG }, { content: 'short' }]);
  for (const said of [
    '',
    'null',
    '"short"',
    JSON.stringify(OTHER),
    JSON.stringify({ escaped: LONG.slice(1) + 1 }),
  ])
    assert.deepEqual(withKnown(text, [{ ref: first, text: said }]), { parts: [], rest: text });
});
