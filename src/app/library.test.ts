import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createOrchestrator, type OrchestratorOptions } from './library.ts';

const refused = (options: object, message: RegExp) =>
  assert.rejects(createOrchestrator(options as OrchestratorOptions), { code: 'INVALID_PARAMS', message });

test('options that are no options are refused, with the nearest name', async () => {
  await refused({ dat: 'memory', backends: [] }, /there is no option "dat"; did you mean "data"\?/);
  await refused({ data: 'memory' }, /"backends" must be an array/);
  await refused({ data: 'memory', backends: [{ name: 'b', typs: {} }] }, /a backend needs "types"/);
});

test('what only the server runs is refused, and not ignored', async () => {
  const parts = {
    schedules: [{ name: 's', every_sec: 60, job: { type: 'x', payload: 1 } }],
    modules: [{ name: 'm', argv: ['true'] }],
    'gateway.seats': [{ name: 'a', driver: 'openai', url: 'http://127.0.0.1:1', models: ['m'] }],
    redis: { url: 'redis://127.0.0.1:1' },
    'backends.gateways': [{ name: 'g', url: 'http://127.0.0.1:1' }],
  };
  for (const [path, list] of Object.entries(parts)) {
    const [first = '', second] = path.split('.');
    const config = JSON.stringify({ [first]: second === undefined ? list : { [second]: list } });
    await refused({ data: 'memory', backends: [], config }, new RegExp(`^${path} is a part of the server`));
  }
});
