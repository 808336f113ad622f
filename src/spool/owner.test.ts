import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Host } from '../kit/process/host.ts';
import type { Life } from '../kit/process/identity.ts';
import { Heartbeats, judgeOwner, type OwnerEvidence, type OwnerRecord } from './owner.ts';

const BOOTED_AT = 1_000_000;

const hostThatSays = (life: Life): Host => ({
  hostname: 'here',
  self: { pid: 1, start: '1', boot: 'b', namespace: 'n' },
  lifeOf: () => life,
  bootedAtMs: () => BOOTED_AT,
});

const owner: OwnerRecord = { hostname: 'here', pid: 7, start: '1', boot: 'b', namespace: 'n', nonce: 'x' };
const evidence = (more: Partial<OwnerEvidence> = {}): OwnerEvidence => ({
  owner,
  hasFile: true,
  heartbeatMs: BOOTED_AT + 1,
  ...more,
});
const before = { heartbeatMs: BOOTED_AT - 1 };

test('a process that can be asked for is alive or dead, however old its heartbeat is', () => {
  for (const life of ['alive', 'dead'] as const)
    for (const more of [{}, before]) assert.equal(judgeOwner(evidence(more), hostThatSays(life)), life);
});

test('one of another pid namespace is judged by its heartbeat alone', () => {
  for (const more of [{}, before])
    assert.equal(judgeOwner(evidence(more), hostThatSays('other namespace')), 'unheard');
});

test('one of another boot is dead if it was of this machine and was not heard of since its start', () => {
  const host = hostThatSays('other boot');
  assert.equal(judgeOwner(evidence(before), host), 'dead');
  assert.equal(judgeOwner(evidence(), host), 'unheard', 'another machine of the same name');
  const elsewhere = { ...before, owner: { ...owner, hostname: 'there' } };
  assert.equal(judgeOwner(evidence(elsewhere), host), 'unheard');
});

test('an owner file that cannot be read is dead if it is older than the start of the machine', () => {
  const host = hostThatSays('alive');
  assert.equal(judgeOwner(evidence({ owner: undefined, ...before }), host), 'dead');
  assert.equal(judgeOwner(evidence({ owner: undefined }), host), 'unheard');
  assert.equal(
    judgeOwner(evidence({ owner: undefined, hasFile: false, ...before }), host),
    'unheard',
    'a bare mkdir',
  );
});

test('silence is counted from the first look, by a clock that only grows, and anew after each heartbeat', () => {
  let now = 500;
  const heartbeats = new Heartbeats(() => now);
  assert.equal(heartbeats.silentMs('a', 1), 0, 'an old heartbeat that was never seen before tells nothing');
  now += 70;
  assert.equal(heartbeats.silentMs('a', 1), 70);
  assert.equal(heartbeats.silentMs('a', 5_000_000), 0, 'the wall clock was set forward');
  now += 30;
  assert.equal(heartbeats.silentMs('a', 5_000_000), 30);
  assert.equal(heartbeats.silentMs('a', 2), 0, 'and back');
});

test('what was not asked about since the last round is forgotten', () => {
  let now = 0;
  const heartbeats = new Heartbeats(() => now);
  heartbeats.silentMs('a', 1);
  heartbeats.silentMs('b', 1);
  heartbeats.forgetOthers();
  now = 10;
  assert.equal(heartbeats.silentMs('a', 1), 10);
  heartbeats.forgetOthers();
  assert.equal(heartbeats.silentMs('b', 1), 0);
});
