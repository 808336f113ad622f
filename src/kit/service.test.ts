import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Service } from './service.ts';

/** Counts its starts and stops, and fails when both run at once. */
class Counted extends Service {
  starts = 0;
  stops = 0;
  busy = false;
  gate: Promise<void> = Promise.resolve();
  failStart = false;
  failStop = false;

  get signal(): AbortSignal {
    return this.stopSignal;
  }

  protected async onStart(): Promise<void> {
    this.starts++;
    await this.#alone();
    if (this.failStart) throw new Error('no');
  }

  protected async onStop(): Promise<void> {
    this.stops++;
    await this.#alone();
    if (this.failStop) throw new Error('no end');
  }

  async #alone(): Promise<void> {
    assert.equal(this.busy, false, 'a start and a stop at once');
    this.busy = true;
    await this.gate;
    this.busy = false;
  }
}

test('start and stop happen once, however often they are called', async () => {
  const service = new Counted();
  await Promise.all([service.start(), service.start()]);
  assert.equal(service.running, true);
  await Promise.all([service.stop(), service.stop(), service.stop()]);
  await service.stop();
  assert.deepEqual([service.starts, service.stops, service.running], [1, 1, false]);
});

test('a stop during a start waits for it, then stops', async () => {
  const service = new Counted();
  const { promise, resolve } = Promise.withResolvers<void>();
  service.gate = promise;
  const starting = service.start();
  const stopping = service.stop();
  assert.equal(service.stops, 0);
  resolve();
  await Promise.all([starting, stopping]);
  assert.deepEqual([service.starts, service.stops, service.running], [1, 1, false]);
});

test('a service that was never started has nothing to stop, and does not start afterwards', async () => {
  const service = new Counted();
  await service.stop();
  await assert.rejects(service.start());
  assert.deepEqual([service.starts, service.stops], [0, 0]);
});

test('a failed start calls onStop once before it rejects', async () => {
  const service = new Counted();
  service.failStart = true;
  await assert.rejects(service.start(), new Error('no'));
  assert.deepEqual([service.stops, service.running, service.busy], [1, false, false]);
  await service.stop();
  await assert.rejects(service.start(), new Error('no'));
  assert.deepEqual([service.starts, service.stops], [1, 1]);
});

test('a failed start rejects with its own error, even if onStop fails too', async () => {
  const service = new Counted();
  service.failStart = true;
  service.failStop = true;
  await assert.rejects(service.start(), new Error('no'));
  await assert.rejects(service.stop(), new Error('no end'));
});

test('stopSignal is aborted at once, during a start and on a service that was never started', async () => {
  const service = new Counted();
  service.gate = new Promise((resolve) => {
    service.signal.addEventListener('abort', () => resolve());
  });
  const starting = service.start();
  await Promise.all([service.stop(), starting]);
  assert.deepEqual([service.starts, service.stops], [1, 1]);
  const unused = new Counted();
  await unused.stop();
  assert.equal(unused.signal.aborted, true);
});

test('any mix of calls stops the service at most once and never starts it after a stop', async () => {
  const calls = fc.array(fc.constantFrom('start', 'stop', 'turn'), { maxLength: 20 });
  await fc.assert(
    fc.asyncProperty(calls, fc.boolean(), async (sequence, failStart) => {
      const service = new Counted();
      service.failStart = failStart;
      const under: Promise<unknown>[] = [];
      for (const call of sequence) {
        if (call === 'turn') await Promise.resolve();
        else under.push(service[call as 'start' | 'stop']().catch(() => undefined));
      }
      under.push(service.stop());
      await Promise.all(under);
      assert.equal(service.running, false);
      assert.ok(service.starts <= 1);
      assert.equal(service.stops, service.starts);
    }),
  );
});
