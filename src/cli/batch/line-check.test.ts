import assert from 'node:assert/strict';
import { test } from 'node:test';
import { textMaker } from './job-text.ts';
import { checkLine, type JobDefaults, LineFault } from './line-check.ts';

const lineOf = (text: string, number = 1) => ({ number, bytes: Buffer.from(text) });
const check = (text: string, defaults: JobDefaults = {}) => checkLine(lineOf(text), defaults);

test('a line is a job, or a prompt in quotes', () => {
  assert.deepEqual(check('"hello"').request, { prompt: 'hello' });
  const { name, after, request } = check('{"name": "n", "prompt": "p", "after": ["x y", "z"]}');
  assert.deepEqual([name, after, request.prompt], ['n', ['x y', 'z'], 'p']);
  assert.equal('name' in request, false);
});

const FAULTS: Record<string, RegExp> = {
  '{"prompt": "x"': /^not valid JSON: /,
  null: /must be an object, or a prompt in quotes/,
  '" "': /the prompt is empty/,
  '{"modle": "x", "prompt": "y"}': /^"modle" is not a known field; did you mean "model"\?$/,
  '{"prompt": "x", "category": 1}':
    /^"category" is not a known field; own fields go into "tags" or "payload"$/,
  '{"custom_id": "r-1", "method": "POST", "url": "/v1/chat/completions", "body": {"model": "m"}}':
    /OpenAI's batch format; .*jq -c '\.body \+ \{tags: \{custom_id\}\}' file/,
  'Why is the sky blue?': /^not JSON; a prompt needs quotes: jq -R \. file > file\.jsonl$/,
  '{"prompt": 5}': /^"prompt" must be a string/,
  '{"prompt": "x", "messages": [{}]}': /"prompt" and "messages" cannot be given together/,
  '{"model": "m"}': /needs a prompt, messages or a payload/,
  '{"prompt": "x", "not_before": "tomorrow"}': /"tomorrow" is not a time/,
  '{"prompt": "x", "after": "a"}': /"after" must be a list of 1 to 1000/,
  '{"prompt": "x", "after": []}': /"after" must be a list of 1 to 1000/,
  '{"prompt": "x", "after": ["a", 1]}': /"after" must be a list of names or job ids/,
  '{"prompt": "x", "after": ["a", "a"]}': /an entry twice/,
  '{"prompt": "x", "name": ""}': /"name" must be a text/,
  '{"prompt": "x", "__proto__": 1}': /"__proto__" is not allowed/,
};

for (const [text, says] of Object.entries(FAULTS)) {
  test(`a fault: ${text}`, () => {
    assert.throws(
      () => check(text),
      (error) => error instanceof LineFault && says.test(error.message),
    );
  });
}

test('a line that is too long, and one that is not UTF-8, are faults', () => {
  assert.throws(() => checkLine({ number: 1, bytes: undefined }, {}), /longer than 17 MiB/);
  const bytes = Buffer.concat([Buffer.from('{"prompt": "'), Buffer.from([0xff]), Buffer.from('"}')]);
  assert.throws(() => checkLine({ number: 1, bytes }, {}), /not valid UTF-8/);
});

test('the text made from the text of a line is the same job as the one made from its value', () => {
  const defaults: JobDefaults = { model: 'm', tags: { a: 'b' }, priority: 'interactive' };
  const textOf = textMaker('b', defaults);
  const fast = [
    '"a prompt"',
    ' {"prompt": "x"} ',
    '{"payload": {"deep": [1, "}"]}}',
    '{\t"messages": [{"role": "user"}]}',
  ];
  for (const text of fast) {
    const made = textOf(lineOf(text), 'b.1');
    assert.ok(made !== undefined, text);
    assert.deepEqual(JSON.parse(made), { ...check(text, defaults).request, job_id: 'b.1', batch: 'b' });
  }
});

test('a line that says otherwise than the defaults, has a name, or could spell one by an escape, is parsed', () => {
  const textOf = textMaker('b', { model: 'm' });
  const slow = [
    '{"prompt": "x", "model": "n"}',
    '{"name": "a", "prompt": "x"}',
    '{"after": ["a"], "prompt": "x"}',
    '{"\\u006eame": "a", "prompt": "x"}',
    '{"prompt": "says \\"model\\" and {\\"model\\": 1}", "payload": {"model": 1}}',
    '{}',
    '{ }',
  ];
  for (const text of slow) assert.equal(textOf(lineOf(text), 'b.1'), undefined, text);
});
