import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SeededRandom } from '../../test/fakes/world.ts';
import { identify, isRevoked, makeToken } from './tokens.ts';

test('a token whose list of models has lost one counts as revoked for requests in progress; a longer list does not', () => {
  const random = new SeededRandom(5);
  const { token, entry } = makeToken(random, 0, 'ada', 'submit', undefined, { models: ['a', 'b*'] });
  const identity = identify(token, [entry]);
  assert.deepEqual(identity?.models, ['a', 'b*']);
  const isOver = (models: readonly string[] | undefined): boolean => {
    const { models: _, ...rest } = entry;
    return isRevoked(identity!, [models === undefined ? rest : { ...rest, models }]);
  };
  assert.deepEqual([isOver(['a']), isOver([]), isOver(['a', 'b'])], [true, true, true]);
  assert.deepEqual([isOver(['b*', 'a']), isOver(['a', 'b*', 'c']), isOver(undefined)], [false, false, false]);
  const { models: _, ...all } = identity!;
  assert.ok(isRevoked(all, [entry]), 'it could use any model before');
});
