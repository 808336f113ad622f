import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MemoryDisk } from '../../test/fakes/memory-disk.ts';
import { SeededRandom } from '../../test/fakes/world.ts';
import { VirtualEnv } from '../../test/flow/virtual-env.ts';
import { createLogger } from '../kit/logger.ts';
import { TokenFile, writeTokens } from './token-file.ts';
import { parseTokenList } from './token-list.ts';
import { makeToken, type TokenEntry } from './tokens.ts';

const random = new SeededRandom(1);
const entry = (name: string, tenant?: string): TokenEntry => makeToken(random, 0, name, 'read', tenant).entry;
const ADA = entry('ada');

test('a malformed token file is a configuration error that names the place', () => {
  const fileOf = (...tokens: unknown[]): string => JSON.stringify({ tokens });
  const faults: [text: string, message: RegExp][] = [
    ['', /not JSON/],
    ['null', /not JSON with a list/],
    ['[]', /not JSON with a list/],
    ['{"tokens": {}}', /not JSON with a list/],
    [fileOf(null), /tokens\[0\] is not an object/],
    [fileOf(ADA, 'x'), /tokens\[1\] is not an object/],
    [fileOf([]), /tokens\[0\] is not an object/],
    [fileOf({}), /tokens\[0\]\.id must be/],
    [fileOf({ ...ADA, name: 7 }), /tokens\[0\]\.name must be/],
    [fileOf({ ...ADA, name: 'a\nb' }), /tokens\[0\]\.name must be/],
    [fileOf({ ...ADA, role: 'root' }), /tokens\[0\]\.role must be one of read, submit/],
    [fileOf({ ...ADA, role: 'toString' }), /tokens\[0\]\.role must be/],
    [fileOf({ ...ADA, tenant: 'A~B' }), /tokens\[0\]\.tenant must be/],
    [fileOf({ ...ADA, hash: 'short' }), /tokens\[0\]\.hash must be/],
    [fileOf({ ...ADA, created_at: 'today' }), /tokens\[0\]\.created_at must be/],
    [fileOf({ ...ADA, models: 'm' }), /tokens\[0\]\.models must be a list of names/],
    [fileOf({ ...ADA, models: ['a*b'] }), /tokens\[0\]\.models must be/],
    [fileOf({ ...ADA, models: [''] }), /tokens\[0\]\.models must be/],
    [fileOf({ ...ADA, cost_budget: -1 }), /tokens\[0\]\.cost_budget must be a whole number/],
    [fileOf({ ...ADA, cost_budget: 0.5 }), /tokens\[0\]\.cost_budget must be/],
    [fileOf({ ...ADA, cost_budget: 1, window: 'year' }), /tokens\[0\]\.window must be one of hour/],
    [fileOf({ ...ADA, cost_budget: 1, time_zone: 'UTC' }), /tokens\[0\]\.time_zone needs a window/],
    [fileOf({ ...ADA, cost_budget: 1, window: 'day', time_zone: 'x' }), /tokens\[0\]\.time_zone must be/],
    [fileOf({ ...ADA, hard: true }), /tokens\[0\]\.hard needs a cost_budget/],
  ];
  for (const [text, message] of faults)
    assert.throws(() => parseTokenList(text, 'tokens.json'), { code: 'CONFIG_INVALID', message }, text);
  assert.deepEqual(parseTokenList(fileOf(ADA), 'tokens.json'), [ADA]);
});

const stage = (...tokens: TokenEntry[]) => stageOn(true, ...tokens);

async function stageOn(isLoopback: boolean, ...tokens: TokenEntry[]) {
  const virtual = new VirtualEnv();
  const disk = new MemoryDisk();
  const logged: string[] = [];
  const logger = createLogger({ write: (line) => logged.push(line), now: () => 0, level: 'debug' });
  const path = '/data/tokens.json';
  const write = (entries: readonly TokenEntry[]) => writeTokens(disk, '/data', path, entries);
  await write(tokens);
  return { virtual, logged, write, file: new TokenFile(virtual.env(disk), path, logger, isLoopback) };
}

test('two tokens of a tenant with the same name are refused at the start, with both ids', async () => {
  const [one, two] = [entry('ci'), entry('ci')];
  const message = new RegExp(`${one.id} and ${two.id} .*"default" have the same name "ci"; revoke one`);
  await assert.rejects((await stage(one, two)).file.start(), { code: 'CONFIG_INVALID', message });
  const twice = await stage(one, { ...entry('other'), id: one.id });
  await assert.rejects(twice.file.start(), { code: 'CONFIG_INVALID', message: /two tokens have the id/ });
  const { file } = await stage(one, entry('ci', 'lab'));
  await file.start();
  assert.equal(file.entries.length, 2, 'tenants have names of their own');
  await file.stop();
});

test('a changed file is read within seconds; an invalid one leaves the former tokens, and is logged once', async () => {
  const { virtual, logged, write, file } = await stage(ADA);
  await file.start();
  let changes = 0;
  file.onChange(() => changes++);
  await virtual.pass(10_000);
  assert.equal(changes, 0, 'an unchanged file is no change');
  await write([ADA, entry('ada')]);
  await virtual.pass(10_000);
  assert.deepEqual([file.entries, changes], [[ADA], 0]);
  assert.equal(logged.filter((line) => line.includes('the former tokens stay in force')).length, 1);
  const bob = entry('bob');
  await write([bob]);
  await virtual.pass(3000);
  assert.deepEqual([file.entries, changes], [[bob], 1]);
  await file.stop();
});

for (const [isLoopback, effect] of [
  [true, /no tokens any more: every caller on this machine is accepted as an admin/],
  [false, /no tokens any more: no caller is accepted/],
] as const) {
  test(`a file that loses its last token is warned of, at a server ${isLoopback ? 'on loopback' : 'that others reach'}`, async () => {
    const { virtual, logged, write, file } = await stageOn(isLoopback, ADA);
    await file.start();
    await write([]);
    await virtual.pass(10_000);
    assert.deepEqual(file.entries, []);
    const warned = (): string[] => logged.filter((line) => line.includes('"warn"'));
    assert.equal(warned().length, 1);
    assert.match(warned()[0] ?? '', effect);
    await write([ADA]);
    await virtual.pass(3000);
    assert.equal(warned().length, 1, 'tokens that are there again are not warned of');
    await file.stop();
  });
}

test('a server that starts without tokens does not warn', async () => {
  const { virtual, logged, file } = await stage();
  await file.start();
  await virtual.pass(10_000);
  assert.deepEqual(logged, []);
  await file.stop();
});

test('a new token with a budget is accepted when the budget is in force; a revoked one is gone at once', async () => {
  const budget = (name: string): TokenEntry => ({ ...entry(name), cost_budget: 5 });
  const [old, bob] = [budget('old'), budget('bob')];
  const { virtual, write, logged, file } = await stage(ADA, old);
  await file.start();
  let prepared = Promise.withResolvers<void>();
  const asked: string[][] = [];
  const cancel = file.prepareWith((entries) => {
    asked.push(entries.map(({ name }) => name));
    return prepared.promise;
  });
  await write([old, bob]);
  await virtual.pass(3000);
  assert.deepEqual(asked.at(-1), ['old', 'bob']);
  assert.deepEqual(
    file.entries.map(({ name }) => name),
    ['old', 'bob'],
    'ada is revoked; without an entry the server might be open',
  );
  assert.deepEqual(file.entries[0], old);
  assert.notEqual(file.entries[1]?.hash, bob.hash, 'nobody can use it');
  prepared.reject(new Error('the disk is full'));
  prepared = Promise.withResolvers<void>();
  await virtual.pass(10_000);
  assert.notEqual(file.entries[1]?.hash, bob.hash);
  assert.equal(logged.filter((line) => line.includes('cannot be set yet')).length, 1);
  prepared.resolve();
  await virtual.pass(3000);
  assert.deepEqual(file.entries, [old, bob], 'it was tried again');
  cancel();
  const eve = budget('eve');
  await write([eve]);
  await virtual.pass(3000);
  assert.deepEqual(file.entries, [eve], 'without a brain there is nothing to prepare');
  await file.stop();
});
