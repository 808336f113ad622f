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
