import assert from 'node:assert/strict';
import { test } from 'node:test';
import { askOf } from '../../../test/fakes/folder-maker.ts';
import type { JobBundle } from '../../core/ports/store.ts';
import type { BlobRef } from '../../model/body.ts';
import { composedText, compositionIn } from '../../model/composed.ts';
import { FRESH_JOB } from '../../model/moves.ts';
import type { SessionRecord } from '../../model/session-record.ts';
import type { StoreContents } from './contents.ts';
import { loadSession, piecesOf, withBodies } from './load-bodies.ts';

const ref = (bytes: number): BlobRef => ({ bytes });
const bundle = (bytes: number, n = 1): JobBundle => ({
  uid: `j${n}`,
  seq: n,
  ask: askOf(`j${n}`, n, bytes > 0 ? { payload: ref(bytes) } : {}),
  job: FRESH_JOB,
  attempts: [],
});

test('pieces hold as many bodies as fit together, in order, and every job once', () => {
  const sizes = (page: number[]): number[][] =>
    piecesOf(
      page.map((bytes, n) => bundle(bytes, n)),
      10,
    ).map((piece) => piece.map(({ ask }) => (typeof ask.payload === 'object' ? ask.payload.bytes : 0)));
  assert.deepEqual(sizes([]), []);
  assert.deepEqual(sizes([0, 0, 0]), [[0, 0, 0]]);
  assert.deepEqual(sizes([4, 6, 1]), [[4, 6], [1]]);
  assert.deepEqual(sizes([4, 7, 3, 0]), [[4], [7, 3, 0]]);
  assert.deepEqual(sizes([11, 50, 0, 1]), [[11], [50], [0, 1]], 'a job over the limit is a piece of its own');
});

test('a result counts as a payload does', () => {
  const both = { ...bundle(6), job: { ...FRESH_JOB, result: ref(6) } };
  assert.equal(piecesOf([both, bundle(1)], 12).length, 2);
});

test('a job takes the references of the target and keeps the bodies inside its records', () => {
  const job = bundle(5);
  assert.deepEqual(withBodies(job, ref(9), undefined).ask.payload, ref(9));
  assert.deepEqual(withBodies(job, undefined, undefined), job);
  assert.deepEqual(withBodies(job, undefined, ref(3)).job.result, ref(3));
});

test('a body that needs others is read with their texts, each of which may be sealed', async () => {
  const [list, result] = [ref(1), ref(2)];
  const texts = new Map<number, string>([
    [list.bytes, '"one"'],
    [result.bytes, '{"text":"two"}'],
  ]);
  const slice = { slice: result, from: 9, to: 12 };
  const parts = [{ ref: list, values: 1, links: 1 }, ',"', slice];
  const messages = ref(3);
  texts.set(messages.bytes, composedText({ parts, rest: '"' }));
  const contents = { readBody: async (each: BlobRef) => texts.get(each.bytes) } as unknown as StoreContents;
  const record = { messages: { ref: messages, values: 2, links: 3 } } as SessionRecord;
  const loaded = await loadSession(contents, record);
  assert.deepEqual(compositionIn(loaded.messages ?? ''), {
    parts: ['"one"', ',"', { ...slice, slice: '{"text":"two"}' }, '"'],
    rest: '',
  });
});
