import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { type TestContext, test } from 'node:test';
import {
  identityOf,
  isAlive,
  isNamespacedIdentity,
  isProcessIdentity,
  leadsGroup,
  lifeOf,
  ownIdentity,
  processesWith,
  signal,
} from './identity.ts';

function sleeper(
  t: TestContext,
  options: { detached?: boolean; env?: NodeJS.ProcessEnv } = {},
): ChildProcess {
  const child = spawn('sleep', ['60'], { stdio: 'ignore', ...options });
  t.after(() => child.kill('SIGKILL'));
  return child;
}

const pidOf = (child: ChildProcess): number => child.pid as number;

test('a process is alive until it ends; its pid with another start time is another process', async (t) => {
  const child = sleeper(t);
  const identity = identityOf(pidOf(child));
  assert.equal(isAlive(identity), true);
  assert.equal(isAlive({ ...identity, start: `${Number(identity.start) + 1}` }), false);
  assert.equal(isAlive({ ...identity, boot: 'another' }), false);
  child.kill('SIGKILL');
  await once(child, 'exit');
  assert.equal(isAlive(identity), false);
});

test('pids that mean a group, all processes or init are never alive', () => {
  const { boot } = identityOf(process.pid);
  for (const pid of [-1, 0, 1, 1.5, Number.NaN]) assert.equal(isAlive({ pid, start: '', boot }), false);
});

test('processes are found by an environment variable that they were started with', (t) => {
  const value = `value ${process.pid}`;
  const child = sleeper(t, { env: { ...process.env, ORCHD_TEST_MARK: value } });
  assert.deepEqual(processesWith('ORCHD_TEST_MARK', value), [pidOf(child)]);
  assert.deepEqual(processesWith('ORCHD_TEST_MARK', value.slice(1)), []);
  assert.deepEqual(processesWith('TEST_MARK', value), []);
});

test('only a process in a group of its own leads it', (t) => {
  assert.equal(leadsGroup(pidOf(sleeper(t, { detached: true }))), true);
  assert.equal(leadsGroup(pidOf(sleeper(t))), false);
});

test('signal returns whether the process exists', async (t) => {
  const child = sleeper(t, { detached: true });
  const pid = pidOf(child);
  assert.equal(signal(-pid, 0), true);
  assert.equal(signal(-pid, 'SIGKILL'), true);
  await once(child, 'exit');
  assert.equal(signal(-pid, 0), false);
});

test('a value is a ProcessIdentity only with all of its fields', () => {
  assert.equal(isProcessIdentity(identityOf(process.pid)), true);
  for (const value of [null, 7, {}, { pid: '7', start: '1', boot: 'b' }, { pid: 7, start: '1' }])
    assert.equal(isProcessIdentity(value), false);
});

test('of a process in another pid namespace or of another boot nothing is told by its pid', async (t) => {
  const own = ownIdentity();
  assert.equal(isNamespacedIdentity(own), true);
  assert.equal(lifeOf(own), 'alive');
  const child = sleeper(t);
  const other = { ...own, ...identityOf(pidOf(child)) };
  assert.equal(lifeOf(other), 'alive');
  child.kill('SIGKILL');
  await once(child, 'exit');
  assert.equal(lifeOf(other), 'dead');
  assert.equal(lifeOf({ ...other, namespace: 'pid:[1]' }), 'other namespace');
  assert.equal(lifeOf({ ...own, boot: 'another' }), 'other boot');
});

test('the first process of a namespace counts by its start time', () => {
  const own = ownIdentity();
  assert.equal(lifeOf({ ...own, pid: 1, start: identityOf(1).start }), 'alive');
  assert.equal(lifeOf({ ...own, pid: 1, start: 'another' }), 'dead');
});
