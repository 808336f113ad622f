import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { checkTemplate, wordFault, wordsFor } from './command-words.ts';

const PARAMETERS = { type: 'object', properties: { path: {}, n: {}, all: {} } };

describe('the words of a command', () => {
  test('have the arguments of the call in them, and whatever a model writes stays one word', () => {
    const argv = ['git', 'log', '-n', '{n}', '--since={all}', '--', '{path}'];
    assert.deepEqual(wordsFor(argv, { n: 3, all: true, path: 'a b; rm -rf $HOME `x` {n}' }), [
      'git',
      'log',
      '-n',
      '3',
      '--since=true',
      '--',
      'a b; rm -rf $HOME `x` {n}',
    ]);
  });

  test('are left out where an argument is, and a list that stands alone is several', () => {
    const argv = ['cat', '--lines={n}', '{path}'];
    assert.deepEqual(wordsFor(argv, { path: ['a', 'b'] }), ['cat', 'a', 'b']);
    assert.deepEqual(wordsFor(argv, { n: [1, 2], path: { x: 1 } }), ['cat', '--lines=1,2', '{"x":1}']);
    assert.deepEqual(wordsFor(['echo', '{print}', '{}'], {}), ['echo', '{}']);
  });

  test('are no options that a model has chosen, and have no end in the middle', () => {
    for (const [argv, args, isFault] of [
      [['git', 'log', '{path}'], { path: '--output=/etc/x' }, true],
      [['git', 'log', '{path}'], { path: ['a', '-x'] }, true],
      [['git', 'log', '{n}{path}'], { n: '', path: '-x' }, true],
      [['git', 'log', '{n}'], { n: -1 }, true],
      [['git', 'log', '{path}'], { path: 'a\0b' }, true],
      [['git', 'log', '--', '{path}'], { path: '--output=/etc/x' }, false],
      [['git', 'log', '--grep={path}'], { path: '-x' }, false],
      [['git', 'log', '{path}'], { path: 'a-b' }, false],
      [['git', 'log', '{path}'], {}, false],
    ] as const)
      assert.equal(wordFault(argv, args) !== undefined, isFault, JSON.stringify([argv, args]));
  });

  test('name parameters of the tool, and the program depends on none', () => {
    checkTemplate('t', ['echo', '{path}'], PARAMETERS);
    for (const [argv, message] of [
      [['{path}'], /may not depend on arguments/],
      [['echo', '{pth}'], /"\{pth\}" in argv is none of its parameters/],
      [[''], /begins with a program/],
    ] as const)
      assert.throws(() => checkTemplate('t', argv, PARAMETERS), { code: 'INVALID_PARAMS', message });
  });
});
