import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MemoryDisk } from '../../../test/fakes/memory-disk.ts';
import type { ExecutionEvent } from '../../core/ports/backend.ts';
import { EventLines, MAX_LINE_BYTES } from './events.ts';

const NEVER = new AbortController().signal;

/** Reads a file that grows by these pieces; the last of them is its end. */
async function heard(pieces: readonly (string | Buffer)[], from = 0): Promise<[n: number, text: string][]> {
  const disk = new MemoryDisk();
  const file = await disk.open('events', 'create');
  const lines = new EventLines(file, from);
  const events: ExecutionEvent[] = [];
  for (const [at, piece] of pieces.entries()) {
    await file.write(await file.size(), Buffer.from(piece));
    await lines.read((event) => events.push(event), NEVER, at === pieces.length - 1);
  }
  return events.map(({ n, data }) => [n, (data as { t: string }).t]);
}

test('an event is a whole line with a text; its number does not depend on how the file grew', async () => {
  const text = '{"t":"one"}\n\nno JSON\n{"t":2}\n[]\nnull\n{"t":"zwei ü🦊","x":1}\n{"t":"three"}';
  const all = [
    [2, 'one'],
    [3, 'zwei ü🦊'],
    [4, 'three'],
  ];
  assert.deepEqual(await heard([text]), all);
  const bytes = Buffer.from(text);
  for (let at = 0; at <= bytes.length; at++)
    assert.deepEqual(await heard([bytes.subarray(0, at), bytes.subarray(at)]), all, `cut at ${at}`);
  assert.deepEqual(await heard([text], 3), all.slice(2), 'what the reader has is not sent again');
});

test('a line without an end is no event while the job goes on, nor when it is half an object', async () => {
  assert.deepEqual(await heard(['{"t":"a"}\n{"t":"b"}', '\n']), [
    [2, 'a'],
    [3, 'b'],
  ]);
  assert.deepEqual(await heard(['{"t":"a"}\n{"t":"b']), [[2, 'a']]);
});

test('a line that is too long is passed over, and those after it are read', async () => {
  const longest = JSON.stringify({ t: 'x'.repeat(MAX_LINE_BYTES - 8) });
  assert.equal(longest.length, MAX_LINE_BYTES);
  assert.equal((await heard([`${longest}\n{"t":"b"}\n`])).length, 2);
  assert.deepEqual(await heard([`${longest}  \n{"t":"b"}\n`]), [[2, 'b']]);
});
