import assert from 'node:assert/strict';
import { test } from 'node:test';
import { withoutKey } from './provider-api.ts';

const KEY = 'sk-0123456789abcdef';

test('a key is taken out of a message, also where the message was cut in the middle of it', () => {
  assert.equal(
    withoutKey(`the header was ${KEY}, and ${KEY}`, KEY),
    'the header was [redacted], and [redacted]',
  );
  for (let chars = 6; chars < KEY.length; chars++)
    assert.equal(withoutKey(`the header was ${KEY.slice(0, chars)}`, KEY), 'the header was [redacted]');
  assert.equal(withoutKey('nothing of it: sk-01', KEY), 'nothing of it: sk-01');
});
