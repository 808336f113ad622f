import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLogger, LOG_LEVELS, type LogFields, type LogLevel } from './logger.ts';
import { Secret } from './secret.ts';

function logged(level?: LogLevel) {
  const lines: string[] = [];
  const options = {
    write: (line: string) => void lines.push(line),
    now: () => Date.UTC(2026, 0, 2, 3, 4, 5, 6),
  };
  const logger = createLogger(level === undefined ? options : { ...options, level });
  return { logger, lines, last: () => JSON.parse(lines.at(-1)!) as Record<string, unknown> };
}

test('a line is one JSON object that ends with a newline', () => {
  const { logger, lines } = logged();
  logger.info('job admitted', { job_id: 'a\nb', queue_position: 0, event: { type: 'job', to: 'queued' } });
  const expected =
    '{"timestamp":"2026-01-02T03:04:05.006Z","level":"info","message":"job admitted","app":"orchd",' +
    '"job_id":"a\\nb","queue_position":0,"event":{"type":"job","to":"queued"}}\n';
  assert.deepEqual(lines, [expected]);
});

test('[ORCH-1131] fields outside the allow-list are dropped, also inside event', () => {
  const { logger, lines, last } = logged();
  const event = { type: 'job', from: 'queued', to: 'claimed', payload: 'hunter2' };
  const fields = { job_id: 'a', prompt: 'hunter2', token: 'hunter2', event } as LogFields;
  logger.child({ password: 'hunter2', actor: 'x' } as LogFields).info('moved', fields);
  assert.doesNotMatch(lines.join(''), /hunter2/);
  const { timestamp, ...rest } = last();
  assert.ok(timestamp);
  assert.deepEqual(rest, {
    level: 'info',
    message: 'moved',
    app: 'orchd',
    actor: 'x',
    job_id: 'a',
    event: { type: 'job', from: 'queued', to: 'claimed' },
  });
});

test('fields cannot replace the time, the level, the message or the app', () => {
  const { logger, last } = logged();
  logger.info('real', { message: 'forged', level: 'error', app: 'x', timestamp: 'y' } as LogFields);
  assert.equal(last()['message'], 'real');
  assert.equal(last()['level'], 'info');
  assert.equal(last()['app'], 'orchd');
  assert.notEqual(last()['timestamp'], 'y');
});

test('values that are neither text nor finite number nor boolean are dropped', () => {
  const { logger, last } = logged();
  const odd = { actor: { deep: 1 }, job_id: null, reason: new Secret('s'), count: Number.NaN, event: 7 };
  logger.info('odd', { ...(odd as unknown as LogFields), bytes: 5, position: 'a:1' });
  assert.deepEqual(Object.keys(last()), ['timestamp', 'level', 'message', 'app', 'bytes', 'position']);
});

test('texts are cut to 500 characters', () => {
  const { logger, last } = logged();
  logger.info('m'.repeat(501), { reason: 'r'.repeat(10_000), actor: 'a'.repeat(500) });
  assert.equal(String(last()['message']).length, 500);
  assert.equal(last()['reason'], `${'r'.repeat(499)}…`);
  assert.equal(last()['actor'], 'a'.repeat(500));
});

test('lines under the level are not written; info is the default', () => {
  const count = (level?: LogLevel): number => {
    const { logger, lines } = logged(level);
    for (const each of LOG_LEVELS) logger[each]('x');
    return lines.length;
  };
  assert.deepEqual([count(), ...LOG_LEVELS.map(count)], [4, 5, 4, 3, 2, 1]);
});

test('a child logger adds its fields, which win over those of its parent', () => {
  const { logger, last } = logged();
  const child = logger.child({ actor: 'brain', job_id: 'a' }).child({ job_id: 'b' });
  child.warn('x', { seq: 4 });
  assert.deepEqual([last()['actor'], last()['job_id'], last()['seq']], ['brain', 'b', 4]);
  logger.warn('x');
  assert.equal(last()['actor'], undefined);
});
