import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ERRORS, type ErrorCode, errorInfo, isErrorCode, OrchdError, toOrchdError } from './errors.ts';

/** Code → retriable, as section 12 of the orchestratord specification lists them. */
const SPECIFIED: Record<string, boolean> = {
  ADMISSION_REJECT: false,
  QUEUE_FULL: true,
  INVALID_PARAMS: false,
  POOL_UNAVAILABLE: true,
  WORKER_UNAVAILABLE: false,
  WORKER_TIMEOUT: true,
  INSUFFICIENT_VRAM: true,
  GPU_UNAVAILABLE: true,
  MODEL_NOT_FOUND: false,
  WORKER_START_FAILED: false,
  WORKER_START_TIMEOUT: true,
  WORKER_NOT_FOUND: false,
  INTERNAL: false,
};

const codes = Object.keys(ERRORS) as ErrorCode[];

test('[ORCH-1120] every error code of the specification is in the catalogue under its own name', () => {
  assert.equal(Object.keys(SPECIFIED).length, 13);
  for (const code of Object.keys(SPECIFIED)) {
    assert.ok(isErrorCode(code), code);
    assert.equal(new OrchdError(code).info().code, code);
  }
});

test('[ORCH-1121] of the specified codes exactly the six it names are retriable', () => {
  assert.equal(Object.values(SPECIFIED).filter(Boolean).length, 6);
  for (const [code, retriable] of Object.entries(SPECIFIED)) {
    assert.ok(isErrorCode(code), code);
    assert.equal(new OrchdError(code).retriable, retriable, code);
    assert.equal(errorInfo(code).retriable, retriable, code);
  }
});

test('every error has a meaning, a next step and a status of 400 or more', () => {
  assert.equal(new Set(codes.map((code) => code.toUpperCase())).size, codes.length);
  for (const code of codes) {
    const { meaning, next, status } = ERRORS[code];
    assert.match(code, /^[A-Z]+(_[A-Z]+)*$/);
    assert.match(meaning, /^\S.*\.$/, code);
    assert.match(next, /^\S.*\.$/, code);
    assert.ok(status >= 400 && status < 600, code);
    assert.equal(new OrchdError(code).message, meaning);
    assert.equal(new OrchdError(code).next, next);
  }
});

test('a code outside the catalogue is not an error code', () => {
  for (const name of ['toString', 'constructor', 'internal', '']) assert.ok(!isErrorCode(name), name);
});

test('an OrchdError passes unchanged', () => {
  const error = new OrchdError('QUEUE_FULL', 'full', { reason: 'dropped', retriable: false });
  assert.equal(toOrchdError(error), error);
  assert.deepEqual(error.info(), {
    code: 'QUEUE_FULL',
    message: 'full',
    retriable: false,
    reason: 'dropped',
  });
});

test('a foreign error becomes INTERNAL: its text stays in the cause and reaches no caller', () => {
  for (const thrown of [new Error('password hunter2'), 'hunter2', { message: 'hunter2' }, null, undefined]) {
    const error = toOrchdError(thrown);
    assert.equal(error.code, 'INTERNAL');
    assert.equal(error.cause, thrown);
    assert.doesNotMatch(JSON.stringify([error.message, error.info(), error.details]), /hunter2/);
  }
});
