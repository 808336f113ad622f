import assert from 'node:assert/strict';
import { test } from 'node:test';
import { attemptId, freshLifecycle, type Lifecycle, parseLifecycle } from './envelope.ts';

const parsed = (value: unknown): Lifecycle | undefined => {
  const read = parseLifecycle(JSON.stringify(value), 3);
  return read.is === 'read' ? read.lifecycle : undefined;
};

test('a job.json needs a status and a schema-version; counts that are missing have defaults', () => {
  const minimal = { status: 'failed', 'schema-version': '1.0.0' };
  assert.deepEqual(parsed(minimal), { ...minimal, retry_count: 0, max_retries: 3, moves: 0, attempt: 0 });
  assert.deepEqual(parsed(freshLifecycle(1)), freshLifecycle(1));
});

test('fields of others are kept', () => {
  assert.deepEqual(parsed({ ...freshLifecycle(1), mine: [1] })?.['mine'], [1]);
});

test('another version is told from what cannot be read, whatever else is in it', () => {
  const newer = parseLifecycle(JSON.stringify({ 'schema-version': '2.0.0', status: ['new'] }), 3);
  assert.deepEqual(newer, { is: 'unknown version', version: '2.0.0' });
  const bad = [
    '',
    '{"status":"queued","schema-ver',
    '[]',
    'null',
    '{"status":"queued"}',
    '{"schema-version":"1.0.0"}',
    '{"schema-version":"1.0.0","status":"waiting"}',
    '{"schema-version":"1.0.0","status":"queued","retry_count":-1}',
    '{"schema-version":"1.0.0","status":"queued","max_retries":"many"}',
    '{"schema-version":"1.0.0","status":"queued","moves":0.5}',
  ];
  for (const text of bad) assert.equal(parseLifecycle(text, 3).is, 'unreadable', text);
});

test('a job.json that is nested so deep that it could not be written again is not read', () => {
  const nested = (field: string): string =>
    `{"schema-version":"1.0.0","status":"queued","${field}":${'{"1":'.repeat(50_000)}1${'}'.repeat(50_000)}}`;
  for (const field of ['mine', 'reason'])
    assert.equal(parseLifecycle(nested(field), 3).is, 'unreadable', field);
});

test('a reason that is no text is read as one', () => {
  const read = { '"why"': 'why', null: undefined, '{"exit":3}': '{"exit":3}' };
  for (const [written, reason] of Object.entries(read)) {
    const found = parseLifecycle(`{"schema-version":"1.0.0","status":"failed","reason":${written}}`, 3);
    assert.equal(found.is === 'read' && found.lifecycle.reason, reason, written);
  }
});

test('an attempt is named by the request and its number', () => {
  const lifecycle = { ...freshLifecycle(1), attempt: 2 };
  assert.equal(attemptId(lifecycle, 'job'), 'job.2');
  assert.equal(attemptId({ ...lifecycle, correlation_id: 'r' }, 'job'), 'r.2');
});
