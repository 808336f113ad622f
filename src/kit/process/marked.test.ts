import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { type TestContext, test } from 'node:test';
import { identityOf, type ProcessIdentity } from './identity.ts';
import { findLeader, isAnyAlive, type Mark, markVariable, signalMarked } from './marked.ts';

let marks = 0;

/** Starts a shell that leads a process group and has a child in another group; the child runs when this resolves. */
async function family(
  t: TestContext,
): Promise<{ mark: Mark; leader: ProcessIdentity; ended: Promise<unknown> }> {
  const mark = { variable: 'ORCHD_TEST_FAMILY', value: `${process.pid}/${marks++}` };
  const script = 'trap "exit 7" TERM; setsid sleep 60 & echo; wait $!; wait';
  const shell = spawn('sh', ['-c', script], {
    detached: true,
    stdio: ['ignore', 'pipe', 'ignore'],
    env: { ...process.env, ...markVariable(mark) },
  });
  t.after(() => signalMarked(mark, undefined, 'SIGKILL'));
  const ended = once(shell, 'exit');
  await once(shell.stdout, 'data');
  return { mark, leader: identityOf(shell.pid as number), ended };
}

async function gone(mark: Mark): Promise<void> {
  while (isAnyAlive(mark, undefined)) await new Promise(setImmediate);
}

test('the leader is found by the mark alone', async (t) => {
  const { mark, leader } = await family(t);
  // The child leads a group of its own too; the leader has the lower pid, having been started first.
  assert.deepEqual(findLeader(mark), leader);
  assert.equal(findLeader({ ...mark, value: 'nobody' }), undefined);
});

test('SIGTERM goes to the leader only; a child it leaves behind is still found and signalled', async (t) => {
  const { mark, leader, ended } = await family(t);
  assert.equal(signalMarked(mark, leader, 'SIGTERM'), true);
  assert.deepEqual(await ended, [7, null]);
  assert.equal(isAnyAlive(mark, leader), true);
  assert.equal(signalMarked(mark, leader, 'SIGTERM'), true);
  await gone(mark);
  assert.equal(signalMarked(mark, leader, 'SIGTERM'), false);
});

test('SIGKILL ends the leader and the child in another group', async (t) => {
  const { mark, leader, ended } = await family(t);
  assert.equal(signalMarked(mark, leader, 'SIGKILL'), true);
  assert.deepEqual(await ended, [null, 'SIGKILL']);
  await gone(mark);
  assert.equal(isAnyAlive(mark, leader), false);
  assert.equal(signalMarked(mark, leader, 'SIGKILL'), false);
});
