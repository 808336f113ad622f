/** When a frame waits for more batch jobs. Time is virtual: no wait ends by time unless the test lets time pass. */
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
      diskFull: () => undefined,
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

  /** Appends changes of which all or none are batch jobs; returns the durable sequence once nothing moves any more. */
  async append(count: number, what: 'batch jobs' | 'anything else'): Promise<number> {
    this.#writer.append({ text: 'x', count, batchAsks: what === 'batch jobs' ? count : 0, at: 0 }, 1);
    await turns();
    return this.durable;
  }

  close(): Promise<void> {
    return this.#writer.close();
  }
}

test('after a frame with many batch jobs the next one waits for as many, and is then written at once', async () => {
  const log = await Log.open();
  assert.equal(await log.append(20, 'batch jobs'), 20, 'the first frame does not wait');
  assert.equal(await log.append(19, 'batch jobs'), 20);
  assert.equal(await log.append(1, 'batch jobs'), 40);
});

test('where fewer batch jobs arrive the next frame waits for 2 ms', async () => {
  const log = await Log.open();
  await log.append(20, 'batch jobs');
  assert.equal(await log.append(3, 'batch jobs'), 20);
  await log.time.pass(2);
  assert.equal(log.durable, 23);
});

test('any other change is written at once, together with the batch jobs that wait', async () => {
  const log = await Log.open();
  await log.append(20, 'batch jobs');
  await log.append(3, 'batch jobs');
  assert.equal(await log.append(2, 'anything else'), 25);
});

test('close does not wait for more batch jobs', async () => {
  const log = await Log.open();
  await log.append(20, 'batch jobs');
  await log.append(3, 'batch jobs');
  await log.close();
  assert.equal(log.durable, 23);
});
