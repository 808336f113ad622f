import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Route } from './route.ts';
import { Router } from './router.ts';

const router = new Router(
  ['/v2/tasks', '/v2/tasks/:id', '/v2/tasks/:id/cancel'].map((path) => ({ method: 'GET', path }) as Route),
);
const found = (path: string): unknown => {
  const match = router.find(path);
  return match && { path: match.routes.get('GET')?.path, ...match.params };
};

test('an encoded slash separates no segments: it is part of the segment that it stands in', () => {
  for (const path of ['/v2%2ftasks', '/v2%2Ftasks', '%2fv2/tasks', '%2Fv2%2Ftasks', '/v2%2ftasks/a'])
    assert.equal(found(path), undefined, path);
  assert.equal(found('/v2/tasks/a%2fcancel/x'), undefined);
  assert.deepEqual(found('/v2/tasks/a%2fcancel'), { path: '/v2/tasks/:id', id: 'a/cancel' });
  assert.deepEqual(found('/v2/tasks/a%2Fb%2fc/cancel'), { path: '/v2/tasks/:id/cancel', id: 'a/b/c' });
});

test('any other character may be encoded', () => {
  assert.deepEqual(found('/v2/%74asks'), { path: '/v2/tasks' });
  assert.deepEqual(found('/v2/%74asks/%61'), { path: '/v2/tasks/:id', id: 'a' });
  assert.throws(() => found('/v2/%zz'), { code: 'INVALID_PARAMS' });
});

test('a path that cannot be decoded is refused, and has no routes for those who only describe it', () => {
  const router = new Router([]);
  assert.throws(() => router.find('/v2/tasks/%zz'), { code: 'INVALID_PARAMS' });
  assert.equal(router.findReadable('/v2/tasks/%zz'), undefined);
});
