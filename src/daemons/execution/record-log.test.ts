import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FaultyDisk } from '../../../test/fakes/faulty-disk.ts';
import type { MemoryDisk } from '../../../test/fakes/memory-disk.ts';
import { SimDisk } from '../../../test/fakes/sim-disk.ts';
import { World } from '../../../test/fakes/world.ts';
import { readLines } from './record-lines.ts';
import { RecordLog } from './record-log.ts';

interface Named {
  readonly name: string;
}

const PATH = '/log';
const named = (...names: string[]): Named[] => names.map((name) => ({ name }));

/** A log whose state is the list of what was applied to it. */
async function logOn(faulty: FaultyDisk, first: readonly Named[] = named('first'), minCompactBytes = 1e9) {
  const state = [...first];
  const log = await RecordLog.create<Named>({
    disk: faulty.disk,
    path: PATH,
    live: () => state,
    apply: (record) => void state.push(record),
    minCompactBytes,
  });
  return { log, state, names: () => state.map(({ name }) => name) };
}

const inFile = (disk: MemoryDisk): unknown[] => [...readLines(disk.files.get(PATH) as Buffer).records];

test('a file that is cut at any byte has the records before the cut, and its first record is the least', async () => {
  const faulty = new FaultyDisk();
  const { log } = await logOn(faulty);
  for (const name of ['a', 'ä'.repeat(400), 'c']) await log.append({ name });
  await Promise.all(named('d', 'e'.repeat(600), 'f').map((record) => log.append(record)));
  const whole = faulty.memory.files.get(PATH) as Buffer;
  const all = named('first', 'a', 'ä'.repeat(400), 'c', 'd', 'e'.repeat(600), 'f');
  assert.deepEqual(readLines(whole).records, all);
  let most = 0;
  for (let bytes = 0; bytes <= whole.length; bytes++) {
    const { records, isDamaged } = readLines(whole.subarray(0, bytes));
    assert.deepEqual(records, all.slice(0, records.length));
    assert.ok(records.length >= most);
    most = records.length;
    assert.equal(isDamaged, records.length === 0, `${bytes} bytes`);
  }
  assert.equal(most, all.length);
});

test('a flipped bit is damage, unless only the last flush has it', async () => {
  const faulty = new FaultyDisk();
  const { log } = await logOn(faulty);
  await log.append({ name: 'a' });
  await log.append({ name: 'b' });
  const before = faulty.memory.files.get(PATH)?.length as number;
  await Promise.all(named('c', 'd').map((record) => log.append(record)));
  const whole = faulty.memory.files.get(PATH) as Buffer;
  for (let at = 0; at < whole.length; at++) {
    // A zero between two flushes belongs to no line.
    if (whole[at] === 0) continue;
    const bytes = Buffer.from(whole);
    bytes[at] = (bytes[at] as number) ^ 4;
    const { records, isDamaged } = readLines(bytes);
    assert.equal(isDamaged, at < before, `byte ${at}`);
    if (!isDamaged) assert.deepEqual(records, named('first', 'a', 'b', 'c', 'd').slice(0, records.length));
  }
});

test('a flush that is wholly zeroed behind later ones is damage', async () => {
  const faulty = new FaultyDisk();
  const { log } = await logOn(faulty);
  for (const name of ['a', 'b', 'c']) await log.append({ name });
  const bytes = Buffer.from(faulty.memory.files.get(PATH) as Buffer);
  bytes.fill(0, 512, 1024);
  assert.deepEqual(readLines(bytes), { records: named('first'), isDamaged: true });
});

test('what is appended during a flush goes with the next one, and is applied when it is durable', async () => {
  const faulty = new FaultyDisk();
  const { log, names } = await logOn(faulty);
  const syncs = faulty.syncs;
  faulty.held = Promise.withResolvers();
  const settled: string[] = [];
  const append = (name: string) => log.append({ name }).then(() => settled.push(name));
  const all = [append('a'), append('b')];
  await new Promise(setImmediate);
  all.push(append('c'), append('d'));
  await new Promise(setImmediate);
  assert.deepEqual([settled, names()], [[], ['first']]);
  faulty.held.resolve();
  await Promise.all(all);
  assert.deepEqual(settled, ['a', 'b', 'c', 'd']);
  assert.deepEqual(names(), ['first', 'a', 'b', 'c', 'd']);
  // The first flush may have taken `a` alone: it begins when `a` is appended.
  assert.ok(faulty.syncs - syncs <= 3, `${faulty.syncs - syncs} syncs for four records`);
});

test('a lazy record makes no flush of its own: it goes before the next record, by order, or with the end', async () => {
  const faulty = new FaultyDisk();
  const { log, names } = await logOn(faulty);
  const { syncs } = faulty;
  log.appendLazily({ name: 'a' });
  await new Promise(setImmediate);
  assert.deepEqual([faulty.syncs - syncs, names()], [0, ['first']]);
  await log.append({ name: 'b' });
  assert.deepEqual([faulty.syncs - syncs, names()], [1, ['first', 'a', 'b']]);
  log.appendLazily({ name: 'c' });
  log.flushLazy();
  log.flushLazy();
  await new Promise(setImmediate);
  assert.deepEqual([faulty.syncs - syncs, names()], [2, ['first', 'a', 'b', 'c']]);
  log.appendLazily({ name: 'd' });
  await log.close();
  log.appendLazily({ name: 'too late' });
  assert.deepEqual(inFile(faulty.memory), named('first', 'a', 'b', 'c', 'd'));
});

test('a record that does not fit is rejected, and the file is as if it had never been tried', async () => {
  const faulty = new FaultyDisk();
  const { log, names } = await logOn(faulty);
  await log.append({ name: 'a' });
  const before = Buffer.from(faulty.memory.files.get(PATH) as Buffer);
  faulty.maxFileBytes = 1500;
  // Both go with one flush: the line of the first is written as a whole before the disk is full.
  const refused = await Promise.allSettled([
    log.append({ name: 'b' }),
    log.append({ name: 'x'.repeat(900) }),
  ]);
  for (const each of refused) assert.equal(each.status === 'rejected' && each.reason.code, 'STORE_FULL');
  assert.deepEqual(faulty.memory.files.get(PATH), before);
  faulty.maxFileBytes = Number.POSITIVE_INFINITY;
  await log.append({ name: 'c' });
  assert.deepEqual(inFile(faulty.memory), named('first', 'a', 'c'));
  assert.deepEqual(names(), ['first', 'a', 'c']);
});

test('a failed sync stops the log for good, and nothing is applied', async () => {
  const faulty = new FaultyDisk();
  const { log, names } = await logOn(faulty);
  faulty.failsSyncs = true;
  await assert.rejects(log.append({ name: 'a' }), { code: 'STORE_FAILED' });
  faulty.failsSyncs = false;
  assert.equal((await log.failed).code, 'STORE_FAILED');
  await assert.rejects(log.append({ name: 'b' }), { code: 'STORE_FAILED' });
  assert.deepEqual(names(), ['first']);
});

test('a large file is compacted, and a crash at any step of it loses nothing', async () => {
  const fill = async (faulty: FaultyDisk, told: string[]): Promise<void> => {
    const { log } = await logOn(faulty, named('first'), 4096);
    for (let i = 0; i < 30; i++) {
      await log.append({ name: `n${i}` });
      told.push(`n${i}`);
    }
    await log.close();
  };
  const operations: string[] = [];
  const whole = new FaultyDisk();
  whole.onChange = (operation) => void operations.push(operation);
  await fill(whole, []);
  assert.ok(operations.filter((operation) => operation === 'rename').length > 2);
  for (let stop = 0; stop < operations.length; stop++) {
    const faulty = new FaultyDisk();
    const told: string[] = [];
    let left = stop;
    faulty.onChange = () => {
      if (left-- <= 0) throw new Error('the process has died');
    };
    await fill(faulty, told).catch(() => undefined);
    const bytes = faulty.memory.files.get(PATH);
    if (!bytes) {
      assert.deepEqual(told, []);
      continue;
    }
    const { records, isDamaged } = readLines(bytes);
    const kept = (records as Named[]).map(({ name }) => name);
    assert.equal(isDamaged, false);
    assert.deepEqual(kept.slice(1, told.length + 1), told, `stopped at operation ${stop}`);
  }
});

test('a power cut at any moment keeps every record that was told as durable, and is no damage', async () => {
  for (let seed = 1; seed <= 300; seed++) {
    const world = new World(seed);
    const disk = new SimDisk(world);
    const process = { alive: true };
    const told: string[] = [];
    const state: Named[] = named('first');
    const run = async (): Promise<void> => {
      const log = await RecordLog.create<Named>({
        disk: disk.for(process),
        path: '/data/log',
        live: () => state,
        apply: (record) => void state.push(record),
        minCompactBytes: 6000,
      });
      for (let i = 0; i < 40; i++) {
        const name = `${i}-${'x'.repeat((i * 97) % 700)}`;
        const appended = log.append({ name }).then(() => told.push(name));
        if (i % 3 === 2) await appended;
      }
    };
    void run().catch(() => undefined);
    for (let steps = world.random.int(260); steps > 0 && (await world.step()); steps--);
    process.alive = false;
    const promised = [...told];
    disk.cutPower();
    const bytes = disk.peek('/data/log');
    if (!bytes) {
      assert.deepEqual(promised, []);
      continue;
    }
    const { records, isDamaged } = readLines(bytes);
    assert.equal(isDamaged, false, `seed ${seed}`);
    const kept = (records as Named[]).map(({ name }) => name).slice(1);
    assert.deepEqual(kept.slice(0, promised.length), promised, `seed ${seed}`);
  }
});
