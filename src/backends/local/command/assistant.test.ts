/** Commands that get prompt and thread as arguments and print JSON, with real processes. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { CommandKit, hear, offerOf, run } from '../../../../test/fakes/command-kit.ts';
import { createOrchestrator } from '../../../app/library.ts';
import { realEnv } from '../../../kit/env/real.ts';
import type { CommandBackend } from './command.ts';
import { commands } from './descriptor.ts';
import type { CommandType } from './options.ts';

/** An assistant that says which arguments and which standard input it got. */
const ECHO = `
const words = process.argv.slice(1);
const input = require('node:fs').readFileSync(0, 'utf8');
const said = JSON.stringify({ words, input });
console.log(JSON.stringify({ result: said, session_id: 's-1', usage: { input_tokens: 7, output_tokens: 3 } }));
`;
const NODE = [process.execPath, '-e', ECHO, '--'];
const OUTPUT = {
  format: 'json',
  text: 'result',
  thread: 'session_id',
  usage: { input: 'usage.input_tokens', output: 'usage.output_tokens' },
} as const;
const ASSISTANT: CommandType = {
  argv: [...NODE, '{prompt}'],
  resumeArgv: [...NODE, 'resume={thread}', '{prompt}'],
  output: OUTPUT,
};

type Asked = { readonly words: string[]; readonly input: string };
const askedOf = ({ outcome }: Awaited<ReturnType<typeof run>>): Asked => {
  assert.ok(typeof outcome === 'object' && outcome.ok === true, JSON.stringify(outcome));
  return JSON.parse((JSON.parse(outcome.resultText) as { text: string }).text) as Asked;
};

test('a prompt is one argument, whatever is in it, and standard input is empty', async (t) => {
  const backend = new CommandKit(t).backend(ASSISTANT);
  const prompts = [
    'Hello',
    'two words',
    '$(touch x); `y` "q" \'s\' \\ *',
    '-rf',
    '--help',
    '{thread} {prompt}',
    'ä\n\t€',
  ];
  for (const [at, prompt] of prompts.entries())
    assert.deepEqual(askedOf(await run(backend, `job${at}:1`, { prompt })), { words: [prompt], input: '' });
});

test('a job with a thread is run with resume_argv', async (t) => {
  const backend = new CommandKit(t).backend(ASSISTANT);
  const { words } = askedOf(await run(backend, 'job:1', { prompt: '{thread}', thread_id: 't 1' }));
  assert.deepEqual(words, ['resume=t 1', '{thread}']);
  const fresh = askedOf(await run(backend, 'other:1', { prompt: 'Hi', thread_id: null }));
  assert.deepEqual(fresh.words, ['Hi']);
});

test('without a prompt among its arguments a command gets the payload, also with a thread', async (t) => {
  const type = { argv: NODE, resumeArgv: [...NODE, '{thread}'], output: OUTPUT };
  const backend = new CommandKit(t).backend(type);
  const payload = { prompt: ['Hi'], thread_id: 't' };
  const expected = { words: ['t'], input: JSON.stringify(payload) };
  assert.deepEqual(askedOf(await run(backend, 'job:1', payload)), expected);
});

const PLAIN = {
  ...ASSISTANT,
  argv: ['assistant', '{prompt}'],
  resumeArgv: ['assistant', '{thread}', '{prompt}'],
};
const LONGEST = 128 * 1024 - 1;
const REFUSED: [string, CommandType, unknown, string, string][] = [
  [
    'a prompt that would begin an option',
    { argv: ['assistant', '{prompt}!'] },
    { prompt: '-x' },
    'INVALID_PARAMS',
    'prompt',
  ],
  ['no prompt', ASSISTANT, {}, 'INVALID_PARAMS', 'prompt'],
  ['a payload that is no object', ASSISTANT, 'Hi', 'INVALID_PARAMS', 'prompt'],
  ['an empty prompt', ASSISTANT, { prompt: '' }, 'INVALID_PARAMS', 'prompt'],
  ['a prompt that is no text', ASSISTANT, { prompt: ['Hi'] }, 'INVALID_PARAMS', 'prompt'],
  ['a prompt with a NUL', ASSISTANT, { prompt: 'a\0b' }, 'INVALID_PARAMS', 'prompt'],
  ['a thread that is no text', ASSISTANT, { prompt: 'Hi', thread_id: 7 }, 'INVALID_PARAMS', 'thread_id'],
  ['an empty thread', ASSISTANT, { prompt: 'Hi', thread_id: '' }, 'INVALID_PARAMS', 'thread_id'],
  ['a prompt that would be an option', PLAIN, { prompt: '--version' }, 'INVALID_PARAMS', 'prompt'],
  [
    'a thread that would be an option',
    PLAIN,
    { prompt: 'Hi', thread_id: '-x' },
    'INVALID_PARAMS',
    'thread_id',
  ],
  [
    'a thread and no way to go on with it',
    { argv: PLAIN.argv },
    { prompt: 'Hi', thread_id: 't' },
    'UNSUPPORTED',
    'thread_id',
  ],
  ['a prompt that is too long', ASSISTANT, { prompt: 'x'.repeat(LONGEST + 1) }, 'TOO_LARGE', 'prompt'],
  ['a prompt with too many bytes', ASSISTANT, { prompt: 'ä'.repeat(LONGEST / 2 + 1) }, 'TOO_LARGE', 'prompt'],
];
for (const [what, type, payload, code, field] of REFUSED) {
  test(`a job with ${what} is refused with ${code}, and nothing is started`, async (t) => {
    const kit = new CommandKit(t);
    const backend = kit.backend(type);
    const reply = await backend.offer(offerOf('job:1', {}, payload));
    assert.ok(reply.is === 'refused', JSON.stringify(reply));
    assert.deepEqual([reply.error.code, reply.error.retriable], [code, false]);
    assert.ok(reply.error.message.startsWith(`"${field}" of the payload `), reply.error.message);
    assert.equal((await hear(backend, 'job:1')).outcome, 'lost');
  });
}

test('the longest prompt that the system takes is run', async (t) => {
  const backend = new CommandKit(t).backend(ASSISTANT);
  const { words } = askedOf(await run(backend, 'job:1', { prompt: 'x'.repeat(LONGEST) }));
  assert.equal(words[0]?.length, LONGEST);
});

const printing = (text: string, output: CommandType['output'] = OUTPUT): CommandType => ({
  argv: [process.execPath, '-e', 'process.stdout.write(process.argv[1])', text],
  output,
});
const UNDECLARED: [string, string, RegExp][] = [
  ['nothing', '', /no object or list in JSON/],
  ['a text', 'Error: no login', /no object or list in JSON/],
  ['JSON that is cut', '{"result": "Hi", "session_id": "s', /no object or list in JSON/],
  ['two objects', '{"result":"a"}\n{"result":"b"}', /no object or list in JSON/],
  ['no text', '{"session_id":"s"}', /no text at "result"/],
  ['a text of another type', '{"result":7,"session_id":"s"}', /no text at "result"/],
  ['no thread', '{"result":"Hi"}', /no thread at "session_id"/],
  ['an empty thread', '{"result":"Hi","session_id":""}', /no thread at "session_id"/],
];
for (const [what, text, message] of UNDECLARED) {
  test(`a command that prints ${what} fails with WORKER_PROTOCOL, and is not tried again`, async (t) => {
    const { outcome } = await run(new CommandKit(t).backend(printing(text)), 'job:1');
    assert.ok(typeof outcome === 'object' && outcome.ok === false, JSON.stringify(outcome));
    assert.deepEqual([outcome.error.code, outcome.error.retriable], ['WORKER_PROTOCOL', false]);
    assert.match(outcome.error.message, message);
  });
}

test('what is too long to be a result is no declared output', async (t) => {
  const script = 'process.stdout.write(JSON.stringify({ result: "x".repeat(2 ** 20), session_id: "s" }))';
  const type = { argv: [process.execPath, '-e', script], output: OUTPUT };
  const { outcome } = await run(new CommandKit(t).backend(type), 'job:1');
  assert.partialDeepStrictEqual(outcome, { ok: false, error: { code: 'WORKER_PROTOCOL' } });
});

test('a failed command fails as any other, whatever it has printed', async (t) => {
  const type = { argv: ['sh', '-c', 'echo "{}"; echo no login >&2; exit 1'], output: OUTPUT };
  const { outcome } = await run(new CommandKit(t).backend(type), 'job:1');
  assert.partialDeepStrictEqual(outcome, {
    ok: false,
    error: { code: 'EXECUTION_FAILED', message: 'exit code 1: no login' },
  });
});

const COUNTS: [string, object, unknown][] = [
  ['counts', { input_tokens: 7, output_tokens: 3 }, [7, 3]],
  ['no counts', {}, undefined],
  ['half of the counts', { input_tokens: 7 }, undefined],
  ['a negative count', { input_tokens: 7, output_tokens: -3 }, undefined],
  ['a count that is a text', { input_tokens: '7', output_tokens: 3 }, undefined],
];
for (const [what, usage, expected] of COUNTS) {
  test(`the usage of an output with ${what}`, async (t) => {
    const text = JSON.stringify({ result: 'Hi', session_id: 's', usage });
    const { outcome } = await run(new CommandKit(t).backend(printing(text)), 'job:1');
    assert.ok(typeof outcome === 'object' && outcome.ok === true, JSON.stringify(outcome));
    assert.deepEqual(outcome.usage && [outcome.usage.input, outcome.usage.output], expected);
  });
}

test('a path leads through objects and lists, and to nothing that was not printed', async (t) => {
  const kit = new CommandKit(t);
  const text = '{"answers":[{"text":"Hi"}]}';
  const found = await run(kit.backend(printing(text, { format: 'json', text: 'answers.0.text' })), 'a:1');
  assert.deepEqual(found.outcome, {
    ok: true,
    resultText: `{"text":"Hi","exit_code":0,"json":${text}}`,
  });
  const other = printing('{"constructor2":1}', { format: 'json', text: 'constructor.name' });
  const { outcome } = await run(kit.backend(other), 'b:1');
  assert.partialDeepStrictEqual(outcome, { ok: false, error: { code: 'WORKER_PROTOCOL' } });
});

test('the output is read as it was declared when the command was started', async (t) => {
  const kit = new CommandKit(t);
  const text = '{"result":"Hi","session_id":"s"}';
  const before = kit.backend(printing(text));
  const { outcome } = await run(before, 'job:1');
  await before.stop();
  const after = kit.backend({ argv: ['true'] });
  assert.deepEqual((await hear(after, 'job:1')).outcome, outcome);
});

async function configured(t: TestContext) {
  const kit = new CommandKit(t);
  const { argv, resumeArgv = [] } = ASSISTANT;
  const work = { argv, resume_argv: resumeArgv, output: OUTPUT };
  const [made] = commands([{ name: 'assistants', types: { work } }]);
  const backend = made?.make({ env: realEnv(), folder: kit.folder, node: undefined, isCopy: false });
  const orchestrator = await createOrchestrator({ data: 'memory', backends: [backend as CommandBackend] });
  t.after(() => orchestrator.stop());
  return orchestrator;
}

test('a job has text, thread and usage, goes on with its thread, and is dead where it is refused', async (t) => {
  const orchestrator = await configured(t);
  const ask = async (job_id: string, payload: object) => {
    await orchestrator.submit({ job_id, type: 'work', payload });
    return orchestrator.wait(job_id);
  };
  const first = await ask('first', { prompt: 'Hello' });
  const { text, thread_id } = first.result as { text: string; thread_id: string };
  assert.deepEqual(
    [first.state, JSON.parse(text), thread_id],
    ['succeeded', { words: ['Hello'], input: '' }, 's-1'],
  );
  const { prompt_tokens, completion_tokens } = first.attempts[0]?.usage ?? assert.fail();
  assert.deepEqual([prompt_tokens, completion_tokens], [7, 3]);
  const next = await ask('next', { prompt: 'And?', thread_id });
  assert.match(JSON.stringify(next.result), /resume=s-1/);
  await orchestrator.submit({ job_id: 'empty', type: 'work' });
  assert.equal((await orchestrator.wait('empty')).error?.code, 'INVALID_PARAMS');
  const refused = await ask('refused', { prompt: 'x'.repeat(LONGEST + 1) });
  assert.deepEqual([refused.state, refused.error?.code, refused.attempts.length], ['dead', 'TOO_LARGE', 1]);
});
