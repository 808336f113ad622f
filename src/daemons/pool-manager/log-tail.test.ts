import assert from 'node:assert/strict';
import { test } from 'node:test';
import { reasonIn } from './log-tail.ts';

test('the last lines, without secrets, folders, stacks and colours', () => {
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

test('where a worker listened is left out', () => {
  const log =
    'orchd worker w-1 listens on http://127.0.0.1:4000\norchd worker: there is no such model file\n';
  assert.equal(reasonIn(Buffer.from(log), []), 'orchd worker: there is no such model file');
});

test('a log of JSON lines alone is better than nothing', () => {
  assert.equal(reasonIn(Buffer.from('{"a":1}\n'), []), '{"a":1}');
});

test('however much was said it is short, and bytes that are no text do no harm', () => {
  assert.ok(reasonIn(Buffer.alloc(100_000, 'x'), []).length <= 1000);
  assert.equal(reasonIn(Buffer.alloc(0), ['a']), '');
  assert.ok(reasonIn(Buffer.from([0xff, 0xfe, 0x41]), []).endsWith('A'));
});
