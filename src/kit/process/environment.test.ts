import assert from 'node:assert/strict';
import { test } from 'node:test';
import { plainEnvironment } from './environment.ts';

test('only the variables that programs need to be found and to run are passed on', (t) => {
  const { LANG } = process.env;
  t.after(() => {
    if (LANG === undefined) delete process.env['LANG'];
    else process.env['LANG'] = LANG;
    delete process.env['ORCHD_SECRET'];
  });
  process.env['LANG'] = 'C';
  process.env['ORCHD_SECRET'] = 'secret';
  const plain = plainEnvironment();
  assert.equal(plain['LANG'], 'C');
  assert.equal(plain['PATH'], process.env['PATH']);
  assert.ok(!('ORCHD_SECRET' in plain));
  delete process.env['LANG'];
  assert.ok(!('LANG' in plainEnvironment()));
});
