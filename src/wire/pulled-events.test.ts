import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { StreamReply } from './outbound.ts';
import { pulledEvents } from './pulled-events.ts';

/** A stream that the test feeds. */
class FedStream implements StreamReply {
  readonly status = 200;
  readonly headers = {};
  isPaused = false;
  isClosed = false;
  readonly #end = Promise.withResolvers<void>();
  #on: (piece: Buffer) => void = () => undefined;

  async read(on: (piece: Buffer) => void): Promise<void> {
    this.#on = on;
    await this.#end.promise;
  }

  feed(...data: string[]): void {
    this.#on(Buffer.from(data.map((each) => `data: ${each}\n\n`).join('')));
  }

  end(failure?: Error): void {
    if (failure) this.#end.reject(failure);
    else this.#end.resolve();
  }

  pause(): void {
    this.isPaused = true;
  }

  resume(): void {
    this.isPaused = false;
  }

  close(): void {
    this.isClosed = true;
  }
}

test('while a reader is busy with an event, nothing more is read', async () => {
  const stream = new FedStream();
  const events = pulledEvents(stream, 1000);
  const first = events.next();
  stream.feed('a', 'b');
  assert.equal((await first).value?.data, 'a');
  assert.equal(stream.isPaused, true);
  assert.equal((await events.next()).value?.data, 'b');
  const third = events.next();
  assert.equal(stream.isPaused, false);
  stream.feed('c');
  assert.equal((await third).value?.data, 'c');
  stream.end();
  assert.equal((await events.next()).done, true);
  assert.equal(stream.isClosed, true);
});

test('the events before a failure come before it', async () => {
  const stream = new FedStream();
  const seen: string[] = [];
  const reading = (async () => {
    for await (const { data } of pulledEvents(stream, 1000)) seen.push(data);
  })();
  stream.feed('a', 'b');
  stream.end(new Error('broken'));
  await assert.rejects(reading, /broken/);
  assert.deepEqual(seen, ['a', 'b']);
  assert.equal(stream.isClosed, true);
});

test('a reader that stops closes the stream', async () => {
  const stream = new FedStream();
  const reading = (async () => {
    for await (const _ of pulledEvents(stream, 1000)) break;
  })();
  stream.feed('a');
  await reading;
  assert.equal(stream.isClosed, true);
});
