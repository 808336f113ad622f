import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseInstant } from './instant.ts';

test('an ISO time with an offset is an instant, whatever the time zone of this machine', () => {
  for (const text of [
    '2026-12-01T08:00+01:00',
    '2026-12-01T08:00:00+0100',
    '2026-12-01T07:00Z',
    '2026-12-01T07:00:00.000z',
    '2026-12-01T07:00:00,0Z',
  ])
    assert.equal(parseInstant(text), Date.UTC(2026, 11, 1, 7), text);
});

test('a text without an offset, and one that is no time, is none', () => {
  for (const text of [
    '2026-12-01T08:00',
    '2026-12-01',
    '2026-13-01T08:00Z',
    '2026-12-01T25:00Z',
    'tomorrow',
    '',
  ])
    assert.equal(parseInstant(text), undefined, text);
});
