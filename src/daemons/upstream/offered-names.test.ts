import assert from 'node:assert/strict';
import { test } from 'node:test';
import { OfferedNames } from './offered-names.ts';

const listed = (...ids: string[]) => ids.map((id) => ({ id, fields: {} }));
const offered = (names: OfferedNames, ...ids: string[]): string[] =>
  names.offered(listed(...ids)).map(({ name, id }) => (name === id ? id : `${name}=${id}`));

test('without a choice every model is offered under its own name', () => {
  assert.deepEqual(offered(new OfferedNames({}), 'a', 'b:c/d'), ['a', 'b:c/d']);
});

test('only chosen models are offered; a star stands for any text and everything else for itself', () => {
  const names = new OfferedNames({ models: ['qwen/*', 'a.b'] });
  assert.deepEqual(offered(names, 'qwen/x', 'xqwen/x', 'a.b', 'aXb'), ['qwen/x', 'a.b']);
});

test('a renamed model is offered under its new name only, and called by its own', () => {
  const names = new OfferedNames({ rename: { large: 'q:32b', gone: 'missing', small: 'large' } });
  assert.deepEqual(offered(names, 'q:32b', 'large', 'other'), ['other', 'large=q:32b', 'small=large']);
  assert.deepEqual(
    [names.theirs('large'), names.theirs('small'), names.theirs('other')],
    ['q:32b', 'large', 'other'],
  );
});
