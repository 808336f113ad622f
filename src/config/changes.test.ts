import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ConfigChanges, configChanges, type OutsideTheFile } from './changes.ts';
import { checkConfig, loadedFrom } from './load.ts';
import type { RawConfig } from './schema.ts';

const raw = (config: object): RawConfig => loadedFrom(checkConfig({ text: JSON.stringify(config) })).raw;

const between = (before: object, after: object, outside?: OutsideTheFile): ConfigChanges =>
  configChanges(raw(before), raw(after), outside);

const seat = (name: string, models = ['m']) => ({
  name,
  driver: 'openai',
  url: 'http://127.0.0.1:1',
  models,
});
const gateway = (name: string, port = 1) => ({ name, url: `http://127.0.0.1:${port}` });
const schedule = (name: string, every_sec = 60) => ({ name, every_sec, job: { type: 'echo', payload: 1 } });
const module = (name: string, interval_sec = 60) => ({ name, argv: ['true'], interval_sec });

test('nothing has changed where only the order and the spelling of the file have', () => {
  const before = { modules: [module('a')], orchestrator: { queue_capacity: 10_000 } };
  const { changes, restartNeeded } = between(before, { modules: [module('a')] });
  assert.deepEqual([changes, restartNeeded], [[], []]);
});

test('of each list it is said what is new, what is changed and what is gone', () => {
  const lists = (list: (name: string, n?: number) => object) => [
    [list('kept'), list('other', 1), list('gone')],
    [list('new'), list('other', 2), list('kept')],
  ];
  const [seats = [], seatsAfter] = lists((name, n) => seat(name, [`m${n}`]));
  const [modules = [], modulesAfter] = lists(module);
  const [schedules = [], schedulesAfter] = lists(schedule);
  const { changes, restartNeeded, running } = between(
    { gateway: { seats }, modules, schedules, backends: { gateways: [gateway('kept'), gateway('gone', 2)] } },
    {
      gateway: { seats: seatsAfter },
      modules: modulesAfter,
      schedules: schedulesAfter,
      backends: { gateways: [gateway('new', 3), gateway('kept')] },
    },
  );
  const each = { added: ['new'], changed: ['other'], removed: ['gone'] };
  assert.deepEqual(changes, [
    { section: 'gateway.seats', ...each },
    { section: 'backends.gateways', ...each, changed: [] },
    { section: 'modules', ...each },
    { section: 'schedules', ...each },
  ]);
  assert.deepEqual(restartNeeded, []);
  assert.deepEqual(
    running.modules.map(({ name }) => name),
    ['new', 'other', 'kept'],
  );
});

test('whatever else has changed needs a restart, is named as it is written, and keeps its value until then', () => {
  const { changes, restartNeeded, running } = between(
    { pools: { token: 'old' } },
    { pools: { token: 'new' }, orchestrator: { retry: { max_tries: 9 } }, backends: { demo: false } },
  );
  assert.deepEqual(changes, []);
  assert.deepEqual(restartNeeded, ['backends.demo', 'orchestrator.retry.max_tries', 'pools.token']);
  assert.deepEqual(
    [running.pools.token, running.orchestrator.retry.max_tries, running.backends.demo],
    ['old', 3, true],
  );
});

test('a gateway of somebody else does not move while attempts may be open at its old address', () => {
  const { changes, restartNeeded, running } = between(
    { backends: { gateways: [gateway('a', 1)] } },
    { backends: { gateways: [gateway('a', 2)] } },
  );
  assert.deepEqual([changes, restartNeeded], [[], ['backends.gateways.a']]);
  assert.equal(running.backends.gateways[0]?.url, 'http://127.0.0.1:1');
});

test('the first seats bring the address of their gateway with them; later it needs a restart', () => {
  const first = between({}, { gateway: { bind_addr: '127.0.0.1:1', seats: [seat('a')] } });
  assert.deepEqual(first.restartNeeded, []);
  assert.equal(first.running.gateway.bind_addr, '127.0.0.1:1');
  const later = between(
    { gateway: { bind_addr: '127.0.0.1:1', seats: [seat('a')] } },
    { gateway: { bind_addr: '127.0.0.1:2', seats: [seat('a'), seat('b')] } },
  );
  assert.deepEqual(later.restartNeeded, ['gateway.bind_addr']);
  assert.deepEqual(later.changes[0]?.added, ['b']);
  assert.equal(later.running.gateway.bind_addr, '127.0.0.1:1');
});

test('a seat whose key file has another key is changed', () => {
  const same = { gateway: { seats: [seat('a'), seat('b')] } };
  const { changes } = between(same, same, { rekeyedSeats: ['b'] });
  assert.deepEqual(changes, [{ section: 'gateway.seats', added: [], changed: ['b'], removed: [] }]);
});

test('seats that would take the place of pool.url wait for a restart, and so does pool.url set to its default', () => {
  const url = 'http://127.0.0.1:5';
  const after = { gateway: { seats: [seat('a')] } };
  const moved = between({ pool: { url } }, after, { usesPoolUrl: true, setsPoolUrl: false });
  assert.deepEqual([moved.changes, moved.restartNeeded], [[], ['gateway.seats', 'pool.url']]);
  assert.deepEqual(moved.running.gateway.seats, []);
  const set = between({}, { pool: { url: 'http://localhost:8000' } }, { setsPoolUrl: true });
  assert.deepEqual(set.restartNeeded, ['pool.url']);
});
