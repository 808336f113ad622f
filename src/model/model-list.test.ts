import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isListed } from './model-list.ts';

test('a list has names and beginnings; without a list every model may be used, with an empty one none', () => {
  assert.ok(isListed(undefined, 'any'));
  assert.ok(!isListed([], 'any'));
  const models = ['small', 'org/*'];
  for (const name of ['small', 'org/', 'org/large']) assert.ok(isListed(models, name), name);
  for (const name of ['smaller', 'Small', 'org', '', '*', 'or']) assert.ok(!isListed(models, name), name);
  assert.ok(isListed(['*'], ''), 'a star alone stands for every model');
});
