import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MemoryDisk } from '../../test/fakes/memory-disk.ts';
import { realEnv } from './env/real.ts';
import { isObject, RecordFile, readRecord, writeRecord } from './record-file.ts';

const PATH = '/record.json';

interface Point {
  readonly x: number;
  readonly y?: number;
}

const isPoint = (value: unknown): value is Point => typeof (value as Partial<Point> | null)?.x === 'number';

/** A disk on which renames can be made to fail. */
class Failing extends MemoryDisk {
  fails = false;

  override async rename(from: string, to: string): Promise<void> {
    if (this.fails) throw Object.assign(new Error('full'), { code: 'ENOSPC' });
    await super.rename(from, to);
  }
}

function opened(value: Point) {
  const disk = new Failing();
  const env = { disk, random: realEnv().random };
  const file = new RecordFile<Point>(env, PATH, value);
  return { disk, env, file, read: () => readRecord(disk, PATH, isPoint) };
}

test('readRecord returns what writeRecord wrote', async () => {
  const { env, read } = opened({ x: 0 });
  assert.equal(await read(), undefined);
  await writeRecord(env, PATH, { x: 1, y: 2 });
  assert.deepEqual(await read(), { x: 1, y: 2 });
});

test('a file without a valid record reads as undefined', async () => {
  const { disk } = opened({ x: 0 });
  for (const text of ['', '{', 'null', '7', '[]', '{"x":"1"}', `{"x":1${' '.repeat(2 ** 20)}}`]) {
    disk.files.set(PATH, Buffer.from(text));
    assert.equal(await readRecord(disk, PATH, isPoint), undefined, text.slice(0, 20));
  }
  disk.files.set(PATH, Buffer.from('7'));
  assert.equal(await readRecord(disk, PATH, isObject), undefined);
});

test('changes show in `value` at once and are written in order', async () => {
  const { file, read } = opened({ x: 1 });
  const writes = [file.save({ x: 2 }), file.save({ y: 3 }), file.keep({ x: 4 })];
  assert.deepEqual(file.value, { x: 4, y: 3 });
  await Promise.all(writes);
  assert.deepEqual(await read(), { x: 4, y: 3 });
});

test('a change that cannot be saved is undone, unless its field has been changed again', async () => {
  const { disk, file, read } = opened({ x: 1 });
  await file.save({});
  disk.fails = true;
  const failed = [file.save({ x: 2, y: 2 }), file.save({ x: 3 })];
  for (const each of failed) each.catch(() => undefined);
  const kept = file.keep({ y: 4 });
  for (const each of [...failed, kept]) await assert.rejects(each, { code: 'ENOSPC' });
  await assert.rejects(file.settled(), { code: 'ENOSPC' });
  assert.equal(file.value.y, 4);
  assert.deepEqual(await read(), { x: 1 });
  disk.fails = false;
  await file.save({ x: 5 });
  assert.deepEqual(await read(), { x: 5, y: 4 });
});

test('remove waits for the write under way, so the file stays removed', async () => {
  const { disk, file, read } = opened({ x: 1 });
  void file.keep({ x: 2 });
  await file.remove();
  assert.equal(await read(), undefined);
  assert.deepEqual([...disk.files.keys()], []);
});
