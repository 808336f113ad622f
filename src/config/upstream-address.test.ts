import assert from 'node:assert/strict';
import { test } from 'node:test';
import { upstreamBase, upstreamName } from './upstream-address.ts';

const problemOf = (text: string): string => upstreamBase(text).problem ?? '';

test('an address may end in /v1, /v1beta or a slash, or have a path before it', () => {
  const same = ['http://h:1', 'http://h:1/', 'http://h:1/v1', ' http://h:1/v1/ ', 'http://h:1/v1//'];
  for (const text of same) assert.deepEqual(upstreamBase(text), { url: 'http://h:1' }, text);
  assert.deepEqual(upstreamBase('https://h/v1beta/'), { url: 'https://h' });
  assert.deepEqual(upstreamBase('https://openrouter.ai/api/v1'), { url: 'https://openrouter.ai/api' });
  assert.deepEqual(upstreamBase('http://[::1]:8000'), { url: 'http://[::1]:8000' });
});

test('a wrong address is refused with the right one where it can be told, and without its secrets', () => {
  assert.match(problemOf('localhost:11434'), /did you mean http:\/\/localhost:11434\?/);
  assert.match(problemOf('gpu-box'), /did you mean http:\/\/gpu-box\?/);
  for (const text of ['', 'ftp://h', 'http://', '//h', 'file:///etc'])
    assert.match(problemOf(text), /http:\/\//);
  assert.match(problemOf('http://h/v1/chat/completions'), /http:\/\/h\/v1, without \/chat\/completions/);
  assert.match(problemOf('http://h:11434/api/tags'), /http:\/\/h:11434, without/);
  const secret = problemOf('http://user:pass-word@h');
  assert.ok(secret.includes('--upstream-key-env') && !secret.includes('pass-word'));
  const query = problemOf('http://h/?key=pass-word');
  assert.ok(query !== '' && !query.includes('pass-word'));
});

test('the name of an upstream is made of its address', () => {
  assert.equal(upstreamName('http://127.0.0.1:11434'), '127.0.0.1-11434');
  assert.equal(upstreamName('https://openrouter.ai/api'), 'openrouter.ai-api');
  assert.match(upstreamName(`http://[::1]:8000/${'x'.repeat(100)}`), /^[A-Za-z0-9._-]{64}$/);
});
