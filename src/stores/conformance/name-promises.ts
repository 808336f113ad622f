/** Promises about keys, ids and texts chosen by callers: stores must not fold case, trim, normalize or escape them. */
import assert from 'node:assert/strict';
import { Opened, reopen, type StoreFixture } from './opened.ts';
import type { StorePromise } from './promises.ts';

export const NAME_PROMISES: readonly StorePromise[] = [
  ['keys that look alike are different keys, in memory and after a restart', liveKeys],
  ['keys that look alike are different keys in the history', endedKeys],
  ['keys that look alike are different keys in the failure cache, also after checkpoints', failedKeys],
  ['ids that differ in case are different jobs', caseTwins],
  ['texts of callers are read back unchanged, whatever characters they contain', freeTexts],
];

const KEYS = [
  'key',
  'Key',
  'KEY',
  'key ',
  ' key',
  'key\t',
  'key\n',
  'a\tb',
  'a\nb',
  'a\u0000b',
  'kéy',
  'ke\u0301y',
  'ke\u0301y '.normalize('NFC'),
  'straße',
  'strasse',
  'ﬁ',
  'fi',
  '🦊',
  '🐺',
  '"',
  "'",
  '\\',
  '%',
  '_',
  'k'.repeat(255),
  `${'k'.repeat(254)}K`,
  '🦊'.repeat(63),
  'null',
  '0',
  '0.0',
];

async function liveKeys(fixture: StoreFixture): Promise<void> {
  let opened = await Opened.on(fixture);
  for (const [n, key] of KEYS.entries()) opened.submit(`j${n}`, { key, type: 'other' });
  for (let round = 0; round < 3; round++) {
    assert.equal(opened.engine.state.jobs.size, KEYS.length);
    for (const [n, key] of KEYS.entries()) {
      assert.equal(opened.engine.state.roster.byKey('default', key)?.uid, `j${n}`, JSON.stringify(key));
    }
    if (round === 1) await opened.store.checkpoint();
    opened = await reopen(fixture, opened);
  }
  await opened.close();
}

async function endedKeys(fixture: StoreFixture): Promise<void> {
  const opened = await Opened.on(fixture);
  for (const [n, key] of KEYS.entries()) opened.finish(`j${n}`, { key });
  await opened.handedOver();
  const again = await reopen(fixture, opened);
  for (const [n, key] of KEYS.entries()) {
    const found = await again.store.history.list({ tenant: 'default', key, limit: 10 });
    assert.deepEqual(
      found.map(({ uid }) => uid),
      [`j${n}`],
      JSON.stringify(key),
    );
    assert.equal(found[0]?.ask.spec.key, key);
  }
  await again.close();
}

async function failedKeys(fixture: StoreFixture): Promise<void> {
  let opened = await Opened.on(fixture);
  for (const [n, key] of KEYS.entries()) opened.fail(`j${n}`, { key });
  const failures = [...opened.engine.state.failures];
  assert.equal(failures.length, KEYS.length);
  for (let round = 0; round < 3; round++) {
    await opened.handedOver();
    await opened.store.checkpoint();
    opened.submit(`more${round}`, { type: 'other' });
    opened = await reopen(fixture, opened);
    assert.deepEqual([...opened.engine.state.failures], failures, `after ${round + 1} checkpoints`);
  }
  await opened.close();
}

async function caseTwins(fixture: StoreFixture): Promise<void> {
  const opened = await Opened.on(fixture);
  for (const id of ['job', 'Job', 'JOB', 'job.', '.job', '-job']) opened.finish(id);
  await opened.handedOver();
  assert.equal(await opened.store.history.count(), 6);
  assert.equal((await opened.store.history.get('JOB'))?.uid, 'JOB');
  await opened.close();
}

async function freeTexts(fixture: StoreFixture): Promise<void> {
  let opened = await Opened.on(fixture);
  const text = 'tab\t line\nfeed\r return \u0000 \u2028 🦊 "quoted" \\ end';
  const fields = { payload: JSON.stringify(text), correlationId: text };
  opened.submit('live', { ...fields, type: 'other', labels: { name: text } });
  opened.finish('ended', fields, JSON.stringify(text));
  await opened.handedOver();
  await opened.store.checkpoint();
  opened = await reopen(fixture, opened);
  const ended = await opened.store.history.get('ended');
  for (const ask of [opened.job('live').ask, ended?.ask]) {
    assert.deepEqual([ask?.payload, ask?.correlationId], [fields.payload, text]);
  }
  assert.equal(ended?.job.result, fields.payload);
  assert.deepEqual(opened.job('live').ask.spec.labels, { name: text });
  await opened.close();
}
