import assert from 'node:assert/strict';
import { test } from 'node:test';
import { reasonIn } from './log-tail.ts';

test('the reason is the last lines, without secrets, folders, stack traces and colours', () => {
  const log = [
    ...Array.from({ length: 50 }, (_, at) => `line ${at}`),
    '\u001b[31mcannot open /srv/models/big.gguf\u001b[0m: token s3cret is wrong\u0007',
    '{"timestamp":"2026-01-01","level":"error"}',
    '    at load (file:///srv/app/x.ts:3:4)',
    'Node.js v26.0.0',
    '',
  ].join('\r\n');
  const reason = reasonIn(Buffer.from(log), ['s3cret', '']);
  assert.equal(reason.split('\n').length, 8);
  assert.ok(reason.startsWith('line 43\n'));
  assert.ok(reason.endsWith('cannot open big.gguf: token [redacted] is wrong'));
});

test('the line about the address of the worker is left out', () => {
  const log =
    'orchd worker w-1 listens on http://127.0.0.1:4000\norchd worker: there is no such model file\n';
  assert.equal(reasonIn(Buffer.from(log), []), 'orchd worker: there is no such model file');
});

test('JSON lines are used where the log has nothing else', () => {
  assert.equal(reasonIn(Buffer.from('{"a":1}\n'), []), '{"a":1}');
});

test('the reason is short however long the log is, and invalid UTF-8 does no harm', () => {
  assert.ok(reasonIn(Buffer.alloc(100_000, 'x'), []).length <= 1000);
  assert.equal(reasonIn(Buffer.alloc(0), ['a']), '');
  assert.ok(reasonIn(Buffer.from([0xff, 0xfe, 0x41]), []).endsWith('A'));
});
