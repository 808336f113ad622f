/** When a frame waits for those who were just told. Time is virtual: what waits, waits for ever unless it passes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MemoryDisk } from '../../../../test/fakes/memory-disk.ts';
import { turns } from '../../../../test/flow/flow-kit.ts';
import { VirtualEnv } from '../../../../test/flow/virtual-env.ts';
import { paths } from '../layout.ts';
import { LogWriter } from './writer.ts';

class Log {
  readonly time = new VirtualEnv();
  durable = 0;
  #writer!: LogWriter;

  static async open(): Promise<Log> {
    const log = new Log();
    const disk = new MemoryDisk();
    disk.folders.add('/data').add('/data/log');
    const events = {
      durable: (seq: number): void => {
        log.durable = seq;
      },
      space: () => undefined,
      failed: (error: Error): void => assert.fail(error),
    };
    const limits = {
      minSegmentBytes: 2 ** 20,
      maxSegmentBytes: 2 ** 20,
      maxFrameBytes: 2 ** 16,
      maxPendingBytes: 2 ** 20,
    };
    const end = { nextSeq: 1, chain: 0 };
    const env = log.time.env(disk);
    log.#writer = await LogWriter.open({ env, paths: paths('/data'), events, end, limits });
    return log;
  }

  /** Changes of which all or none are batch jobs; returns what is durable once nothing goes on any more. */
  async append(count: number, what: 'batch jobs' | 'anything else'): Promise<number> {
    this.#writer.append({ text: 'x', count, asks: what === 'batch jobs' ? count : 0, at: 0 }, 1);
    await turns();
    return this.durable;
  }

  close(): Promise<void> {
    return this.#writer.close();
  }
}

test('after many were told the next waits for as many, and then goes at once', async () => {
  const log = await Log.open();
  assert.equal(await log.append(20, 'batch jobs'), 20, 'the first wait for nobody');
  assert.equal(await log.append(19, 'batch jobs'), 20);
  assert.equal(await log.append(1, 'batch jobs'), 40);
});

test('or for a moment', async () => {
  const log = await Log.open();
  await log.append(20, 'batch jobs');
  assert.equal(await log.append(3, 'batch jobs'), 20);
  await log.time.pass(2);
  assert.equal(log.durable, 23);
});

test('whatever else comes waits for nobody, and takes along what waits', async () => {
  const log = await Log.open();
  await log.append(20, 'batch jobs');
  await log.append(3, 'batch jobs');
  assert.equal(await log.append(2, 'anything else'), 25);
});

test('a log that is closed waits for nobody', async () => {
  const log = await Log.open();
  await log.append(20, 'batch jobs');
  await log.append(3, 'batch jobs');
  await log.close();
  assert.equal(log.durable, 23);
});
