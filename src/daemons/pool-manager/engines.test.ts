import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseModelRef } from '../../model/model-ref.ts';
import { appliesAdapters, argvOf, engineFor, ownWorkerCommand, type Placeholders } from './engines.ts';

const values: Placeholders = {
  id: 'w1',
  engine: 'llama',
  model: '/models/a {id}.gguf',
  file: '/models/a {id}.gguf',
  model_ref: 'file:/models/a {id}.gguf',
  host: '127.0.0.1',
  slots: '4',
  context: undefined,
  adapter: undefined,
  variant: undefined,
  gpu: 'auto',
  grace: '8000',
  pool_manager: 'http://127.0.0.1:9200',
};

test('the command line of a worker has all known values, and no option without its value', () => {
  const [node, main, ...words] = argvOf(ownWorkerCommand(), values, ['--extra']);
  assert.equal(node, process.execPath);
  assert.match(main!, /cli\/main\.ts$/);
  assert.deepEqual(words, [
    ...['worker', '--id', 'w1', '--engine', 'llama', '--model', '/models/a {id}.gguf'],
    ...['--model-ref', 'file:/models/a {id}.gguf', '--host', '127.0.0.1', '--port', '0', '--slots', '4'],
    ...['--gpu', 'auto', '--grace', '8000', '--pool-manager', 'http://127.0.0.1:9200', '--extra'],
  ]);
});

test('the own engine llama applies adapters, and other programs that are told the file', () => {
  const [own, other] = [ownWorkerCommand(), ['server', '--lora={adapter}']];
  const argv = argvOf(own, { ...values, adapter: '/l.gguf', variant: 'fp16' }, []);
  assert.equal(argv[argv.indexOf('--adapter') + 1], '/l.gguf');
  assert.equal(argv[argv.indexOf('--variant') + 1], 'fp16');
  const applied = ['llama', 'demo', 'openai', 'vllm'].map((name) => appliesAdapters(name, own));
  assert.deepEqual(applied, [true, false, false, true]);
  assert.ok(appliesAdapters('vllm', other) && !appliesAdapters('llama', ['server', '{file}']));
});

test('a template may have a placeholder inside a word, and unknown braces stay as they are', () => {
  assert.deepEqual(argvOf(['run', '--name=x-{id}', '{unknown}', '{context}', 'end'], values, []), [
    'run',
    '--name=x-w1',
    '{unknown}',
    'end',
  ]);
});

test('a configured rule wins over the scheme and the file extension, and a model without an engine is refused', () => {
  const rules = [
    { match: 'openai:*', engine: 'openai', args: ['--url', 'http://x'] },
    { match: 'demo:special', engine: 'other' },
  ];
  const engine = (text: string, named?: string) => engineFor(text, parseModelRef(text), named, rules);
  assert.deepEqual(engine('openai:gpt'), { name: 'openai', args: ['--url', 'http://x'] });
  assert.deepEqual(engine('demo:special'), { name: 'other', args: [] });
  assert.deepEqual(engine('demo:other'), { name: 'demo', args: [] });
  assert.deepEqual(engine('file:/a.GGUF', 'file:/a.GGUF'), { name: 'llama', args: [] });
  assert.throws(() => engine('file:/a.bin', 'file:/a.bin'), { code: 'MODEL_NOT_FOUND' });
  assert.throws(() => engine('alias'), { code: 'MODEL_NOT_FOUND' });
});
