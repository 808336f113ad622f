import assert from 'node:assert/strict';
import { test } from 'node:test';
import { askOf } from '../../../test/fakes/folder-maker.ts';
import type { JobBundle } from '../../core/ports/store.ts';
import type { BlobRef } from '../../model/body.ts';
import { FRESH_JOB } from '../../model/moves.ts';
import type { LoadedJob } from './contents.ts';
import { Digest, difference, type Totals } from './digest.ts';

const bundle = (id: string, fields: Partial<JobBundle> = {}): JobBundle => ({
  uid: id,
  seq: 7,
  ask: askOf(id, 3),
  job: FRESH_JOB,
  attempts: [],
  ...fields,
});
const small = (id: string, fields?: Partial<JobBundle>): LoadedJob => ({
  bundle: bundle(id, fields),
  payload: undefined,
  kept: undefined,
});
/** A job whose payload is in the blob file `file`. */
const large = (payload: string, file: number): LoadedJob => {
  const ask = askOf('large', 4, { payload: { file, bytes: 1 } as BlobRef });
  return { bundle: bundle('large', { ask }), payload, kept: undefined };
};

function totals(...jobs: LoadedJob[]): Totals {
  const digest = new Digest();
  for (const job of jobs) digest.addJob(job);
  return digest.totals();
}

test('the order of reading and the location of a body do not change the digest', () => {
  const one = totals(small('a'), small('b'), large('"x"', 1));
  const other = totals(large('"x"', 99), small('b'), small('a'));
  assert.equal(difference(one, other), undefined);
  assert.deepEqual([one.live, one.ended, one.bodies, one.bodyBytes], [3, 0, 1, 3]);
});

test('any other difference changes the digest', () => {
  const plain = totals(small('a'), small('b'));
  const others = {
    'another id': totals(small('a'), small('B')),
    'another sequence': totals(small('a'), small('b', { seq: 8 })),
    'another ask': totals(small('a'), small('b', { ask: askOf('b', 3, { key: 'k' }) })),
    'another state': totals(small('a'), small('b', { job: { ...FRESH_JOB, tries: 1 } })),
  };
  for (const [what, other] of Object.entries(others)) {
    assert.match(difference(plain, other) ?? '', /^hash/, what);
  }
  assert.match(difference(totals(large('"x"', 1)), totals(large('"y"', 1))) ?? '', /^hash/);
  assert.equal(difference(plain, totals(small('a'))), 'live 1 instead of 2');
  // The digest is a sum, not an XOR: two equal records do not cancel each other out.
  assert.notEqual(totals(small('a'), small('a')).hash, totals().hash);
});

test('of the brain record, only the epoch does not count', () => {
  const hashOf = (owner: string, epoch: number, attemptFloor: number): string => {
    const digest = new Digest();
    digest.addBrain({ v: 1, owner, epoch, attemptFloor });
    return digest.totals().hash;
  };
  assert.equal(hashOf('o', 1, 2), hashOf('o', 1001, 2));
  assert.notEqual(hashOf('o', 1, 2), hashOf('p', 1, 2));
  assert.notEqual(hashOf('o', 1, 2), hashOf('o', 1, 3));
});
