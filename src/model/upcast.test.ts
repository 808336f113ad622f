import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EngineKit } from '../../test/fakes/engine-kit.ts';
import { FRESH_JOB, newAttempt } from './moves.ts';
import type { RecordKind } from './records.ts';
import { RECORD_VERSIONS, upcast } from './upcast.ts';

const KINDS = Object.keys(RECORD_VERSIONS) as RecordKind[];

test('a record that went through JSON gets back the fields that JSON dropped', () => {
  const attempt = newAttempt({ job: 'j', n: 1, backend: 'b', registry: undefined, epoch: 1, at: 2 });
  const back = upcast('attempt', JSON.parse(JSON.stringify(attempt)));
  assert.deepEqual(back, attempt);
  assert.deepEqual(Object.keys(back).sort(), Object.keys(attempt).sort());
  const job = upcast('job', JSON.parse(JSON.stringify(FRESH_JOB)));
  assert.deepEqual(job, FRESH_JOB);
  assert.deepEqual(Object.keys(job), Object.keys(FRESH_JOB));
  const kit = new EngineKit();
  kit.submit('a');
  const { ask } = kit.job('a');
  assert.deepEqual(upcast('ask', JSON.parse(JSON.stringify(ask))), ask);
  assert.deepEqual(Object.keys(upcast('ask', { v: 1 })).sort(), Object.keys(ask).sort());
});

test('a newer version of any kind is refused', () => {
  for (const kind of KINDS) {
    assert.throws(() => upcast(kind, { v: RECORD_VERSIONS[kind] + 1 }), { code: 'STORE_TOO_NEW' });
  }
});

test('a version that never existed is STORE_CORRUPT', () => {
  for (const kind of KINDS) {
    assert.throws(() => upcast(kind, { v: 0 }), { code: 'STORE_CORRUPT' });
  }
});

test('a record without a numeric version is refused', () => {
  for (const v of [undefined, null, '1', Number.NaN]) {
    assert.throws(
      () => upcast('job', { v } as never),
      (error: { code?: string }) => error.code === 'STORE_CORRUPT' || error.code === 'STORE_TOO_NEW',
    );
  }
});

test('an unknown kind is refused', () => {
  assert.throws(() => upcast('saga' as never, { v: 1 }), { code: 'STORE_TOO_NEW' });
  for (const kind of ['constructor', 'toString', '__proto__']) {
    assert.throws(() => upcast(kind as never, { v: 1 }), { code: 'STORE_TOO_NEW' });
  }
});

test('the flat fields of version 1 of an ask become its spec', () => {
  const stored = {
    v: 1,
    id: 'a',
    tenant: 'acme',
    n: 7,
    createdAt: 1000,
    principal: 'anna',
    submittedBy: 'token',
    type: 'inference',
    class: 'interactive',
    score: 2,
    weight: 3,
    maxTries: 4,
    payload: '{}',
    payloadBytes: 2,
    key: 'k',
    kind: 'worker',
    model: 'm',
    modelRef: 'file:m',
    contextTokens: 8192,
    tokens: 10,
    region: 'r',
    labels: { gpu: 'a' },
    session: 's',
    parallel: true,
    notBefore: 2000,
    deadlineAt: 6000,
    timeoutMs: 300,
    parent: 'p',
    ancestors: ['p'],
    onUnknown: 'hold',
    afterOutput: 'retry',
    onDisconnect: 'continue',
    hash: 'h',
    correlationId: 'c',
  };
  // As it was stored: fields that were added to the spec later are absent.
  assert.deepEqual(JSON.parse(JSON.stringify(upcast('ask', stored))), {
    v: 2,
    id: 'a',
    tenant: 'acme',
    n: 7,
    createdAt: 1000,
    submittedBy: 'token',
    spec: {
      key: 'k',
      agent: 'anna',
      session_id: 's',
      parallel: true,
      type: 'inference',
      backend: 'worker',
      model: 'm',
      region: 'r',
      labels: { gpu: 'a' },
      priority: 'interactive',
      score: 2,
      weight: 3,
      not_before: 2000,
      deadline_ms: 5000,
      timeout_ms: 300,
      max_tries: 4,
      parent_id: 'p',
      on_disconnect: 'continue',
      after_output: 'retry',
      on_unknown: 'hold',
    },
    payload: '{}',
    payloadBytes: 2,
    modelRef: 'file:m',
    contextTokens: 8192,
    tokens: 10,
    ancestors: ['p'],
    hash: 'h',
    correlationId: 'c',
  });
});
