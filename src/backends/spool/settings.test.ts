import assert from 'node:assert/strict';
import { test } from 'node:test';
import { loadConfig } from '../../config/load.ts';
import { OWN_TYPES } from '../../model/run-jobs.ts';
import { spoolSettings } from './settings.ts';

test('a spool of the configuration keeps its settings; a name that another backend has is refused', () => {
  const spool = { name: 'farm', folder: '/srv/jobs', types: ['render'], paid: true };
  assert.deepEqual(spoolSettings([{ ...spool, keep_output_sec: 5 }], ['shell']), [
    { ...spool, keepAckedMs: 5000 },
  ]);
  const twice = { code: 'CONFIG_INVALID', details: { field: 'backends.spools[0].name' } };
  assert.throws(() => spoolSettings([spool], ['farm']), twice);
  assert.throws(() => spoolSettings([spool, spool], []), { code: 'CONFIG_INVALID' });
});

test('the types of the brain itself cannot be sent to a spool', () => {
  for (const type of OWN_TYPES) {
    const text = JSON.stringify({ backends: { spools: [{ name: 'a', folder: 'b', types: [type] }] } });
    assert.throws(() => loadConfig({ text }), /belong to the runs of agents/, type);
  }
});
