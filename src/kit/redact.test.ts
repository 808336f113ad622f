import assert from 'node:assert/strict';
import { test } from 'node:test';
import { describeThrown } from './redact.ts';

class Odd extends TypeError {}

test('an error is described by its class, its code and its stack', () => {
  const text = describeThrown(Object.assign(new Odd('what went wrong'), { code: 'E_ODD' }));
  assert.match(text, /^Odd E_ODD at .*redact\.test\.ts:\d+:\d+/);
});

test('[ORCH-1131] no part of a message is shown, whatever it looks like', () => {
  const forged = new Error('canary\n    at canary (canary.ts:1:1)\ncanary');
  const changed = new Error('canary one');
  changed.message = 'another canary';
  const circular = new Error('canary', { cause: forged });
  const named = Object.assign(new Error(''), { name: 'canary', code: 'a canary code' });
  const bare = Object.assign(new Error('canary'), { stack: undefined });
  for (const thrown of [forged, changed, circular, named, bare, 'canary', { message: 'canary' }, null, 7n])
    assert.doesNotMatch(describeThrown(thrown), /canary/);
  assert.match(describeThrown(forged), /^Error at .*redact\.test\.ts/);
});
