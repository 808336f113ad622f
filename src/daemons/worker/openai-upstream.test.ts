import assert from 'node:assert/strict';
import { test } from 'node:test';
import { upstreamArgv } from './openai-upstream.ts';

const COMMAND = [
  'server',
  '-m',
  '{model}',
  '--port={port}',
  '-np',
  '{slots}',
  '-c',
  '{total_context}',
  '{other}',
];

test('the server is told its model, port, slots and context; other words stay as they are', () => {
  const values = { model: '/m/{port}.gguf', slots: 16, contextLength: 4096 };
  assert.deepEqual(upstreamArgv(COMMAND, values, 8001), [
    ...['server', '-m', '/m/{port}.gguf', '--port=8001', '-np', '16', '-c', '65536', '{other}'],
  ]);
  assert.deepEqual(upstreamArgv(['{context}'], values, 1), ['4096']);
});

test('a command that names a context or a variant needs one', () => {
  assert.deepEqual(
    upstreamArgv(['{variant}'], { model: 'm', variant: 'fp16', slots: 1, contextLength: 1 }, 1),
    ['fp16'],
  );
  const values = { model: 'm', slots: 1, contextLength: undefined };
  assert.deepEqual(upstreamArgv(['{slots}'], values, 1), ['1']);
  assert.throws(() => upstreamArgv(COMMAND, values, 1), { code: 'CONFIG_INVALID', message: /--context/ });
  assert.throws(() => upstreamArgv(['{variant}'], values, 1), { message: /--variant/ });
});
