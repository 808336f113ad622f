import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inspect } from 'node:util';
import { Secret } from './secret.ts';

test('[ORCH-1131] only reveal returns a secret', () => {
  const secret = new Secret('hunter2');
  assert.equal(secret.reveal(), 'hunter2');
  assert.equal(`${secret}`, '[redacted]');
  assert.equal(JSON.stringify({ secret }), '{"secret":"[redacted]"}');
  const views = [String(secret), inspect({ secret }, { showHidden: true, depth: 9 }), inspect([secret])];
  for (const view of views) assert.match(view, /\[redacted\]/);
  const copies = [{ ...secret }, structuredClone(secret), Object.getOwnPropertyNames(secret)];
  for (const view of [...views, inspect(copies)]) assert.doesNotMatch(view, /hunter2/);
});
