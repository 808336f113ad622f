import assert from 'node:assert/strict';
import { test } from 'node:test';
import { loadConfig } from './load.ts';

const load = (type: object) =>
  loadConfig({
    text: `backends: { commands: [{ name: a, types: { ask: ${JSON.stringify(type)} } }] }`,
    label: 'c.yaml',
  });
const ARGV = ['assistant', '--', '{prompt}'];
const OUTPUT = { format: 'json', text: 'result' };

test('arguments may contain placeholders, and the output may be declared', () => {
  const resume_argv = ['assistant', '--resume={thread}', '--', '{prompt}'];
  const output = { ...OUTPUT, thread: 'id', usage: { input: 'usage.in', output: 'usage.0.out' } };
  const type = { argv: ARGV, resume_argv, output };
  assert.deepEqual(load(type).backends.commands[0]?.types, { ask: type });
  assert.doesNotThrow(() => load({ argv: ['awk', '{print $1}'] }), 'other braces mean nothing');
});

const WRONG: [string, object, RegExp][] = [
  [
    'a program of a job',
    { argv: ['{prompt}'] },
    /types\.ask\.argv: the program may not contain a placeholder/,
  ],
  [
    'a program that a thread is a part of',
    { argv: ARGV, resume_argv: ['bin/{thread}', '{prompt}'] },
    /types\.ask\.resume_argv: the program may not contain a placeholder/,
  ],
  [
    'a thread where there is none',
    { argv: [...ARGV, '{thread}'] },
    /ask\.argv: .*move \{thread\} to resume_argv/,
  ],
  [
    'a resumption without the thread',
    { argv: ARGV, resume_argv: ARGV },
    /ask\.resume_argv: .*add \{thread\}/,
  ],
  ['an empty resume_argv', { argv: ARGV, resume_argv: [] }, /resume_argv: expected a list of words/],
  ['an output of another format', { argv: ARGV, output: { ...OUTPUT, format: 'xml' } }, /output\.format/],
  ['an output without a text', { argv: ARGV, output: { format: 'json' } }, /output: missing `text`/],
  [
    'an empty path',
    { argv: ARGV, output: { ...OUTPUT, text: 'a..b' } },
    /output\.text: expected a dotted path/,
  ],
  ['half a usage', { argv: ARGV, output: { ...OUTPUT, usage: { input: 'a' } } }, /usage: missing `output`/],
  ['an unknown part', { argv: ARGV, output: { ...OUTPUT, session: 'a' } }, /output\.session: unknown key/],
];
for (const [what, type, message] of WRONG)
  test(`${what} is refused with its place`, () =>
    assert.throws(() => load(type), { code: 'CONFIG_INVALID', message }));
