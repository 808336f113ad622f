import assert from 'node:assert/strict';
import { test } from 'node:test';
import { loadConfig } from '../config/load.ts';
import { realEnv } from '../kit/env/real.ts';
import { configuredBackends } from './registry.ts';

const made = (text: string) =>
  configuredBackends(loadConfig({ text })).map(({ name, make }) => {
    const { info } = make({ env: realEnv(), folder: name, node: 'here', isCopy: false });
    assert.equal(info.name, name);
    return [name, info.slots, info.models, info.node];
  });

test('each configured backend is made under its own name', () => {
  const text = 'backends: { commands: [{ name: a, slots: 3, types: { run: { argv: [wc] } } }] }';
  assert.deepEqual(made(text), [
    ['a', 3, undefined, 'here'],
    ['demo', 4, ['demo'], 'here'],
  ]);
});

test('a configuration without backends makes none', () => {
  assert.deepEqual(made('backends: { demo: false }'), []);
});
