import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ExecutionEvent, FollowEnd } from '../core/ports/backend.ts';
import type { RelayedEvent } from './execution-log.ts';
import type { Cursor, Follower, ReadSource, Sink } from './follower.ts';
import { Relay } from './relay.ts';

/** A sink that records its events and reports itself full while `full` is set. */
class TestSink implements Sink {
  readonly events: RelayedEvent[] = [];
  full = false;
  ended = 0;

  write(events: readonly RelayedEvent[]): boolean {
    this.events.push(...events);
    return !this.full;
  }

  end(): void {
    this.ended++;
  }

  get ids(): (string | undefined)[] {
    return this.events.map(({ id }) => id);
  }

  get names(): string[] {
    return this.events.map(({ event }) => event);
  }
}

const token = (n: number): ExecutionEvent => ({ n, type: 'token', data: { t: `word ${n} `, i: n } });
const END: RelayedEvent = { id: '1.end', event: 'end', data: '{}' };
const START: Cursor = { attempt: 0, n: 0 };
const LOST: ReadSource = async () => ({ is: 'lost' });

/** An executor whose log holds events 1 to `count`. */
const executor =
  (count: number): ReadSource =>
  async (_attempt, from, on, signal): Promise<FollowEnd> => {
    for (let n = from + 1; n <= count && !signal.aborted; n++) on(token(n));
    return signal.aborted ? { is: 'lost' } : { is: 'ended', outcome: { ok: 'cancelled' } };
  };

function make(maxLogBytes = 1e6) {
  const turns: (() => void)[] = [];
  const relay = new Relay({ soon: (run) => turns.push(run), maxLogBytes });
  const turn = (): void => {
    for (const run of turns.splice(0)) run();
  };
  const follow = (sink: Sink, cursor = START, source = LOST, attempt = 0): Follower => {
    const follower = relay.follow('job', cursor, sink, source);
    if (attempt > 0) follower.switchTo(attempt);
    return follower;
  };
  return { relay, turn, follow };
}

const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test('followers get every event once and in order, then the end, once', () => {
  const { relay, turn, follow } = make();
  const sinks = [new TestSink(), new TestSink()];
  for (const sink of sinks) follow(sink);
  for (let n = 1; n <= 5; n++) relay.receive('job', 1, token(n));
  turn();
  relay.receive('job', 1, token(5));
  relay.receive('job', 1, token(6));
  relay.end('job', 1, END);
  relay.end('job', 1, END);
  for (const sink of sinks) {
    assert.deepEqual(sink.ids, ['1.1', '1.2', '1.3', '1.4', '1.5', '1.6', '1.end']);
    assert.equal(sink.ended, 1);
  }
  assert.equal(relay.followers, 0);
});

test('a follower resumes after any event with exactly the events it has not seen', () => {
  for (let from = 0; from <= 8; from++) {
    const { relay, follow } = make();
    for (let n = 1; n <= 8; n++) relay.receive('job', 1, token(n));
    const sink = new TestSink();
    follow(sink, from === 0 ? START : { attempt: 1, n: from }, LOST, 1).pump();
    relay.end('job', 1, END);
    const expected = Array.from({ length: 8 - from }, (_, at) => `1.${from + at + 1}`);
    assert.deepEqual(sink.ids, [...expected, '1.end']);
  }
});

test('many events of one turn reach a follower in one write', () => {
  const { relay, turn, follow } = make();
  let writes = 0;
  follow({ write: () => ++writes > 0, end: () => undefined });
  for (let n = 1; n <= 100; n++) relay.receive('job', 1, token(n));
  turn();
  assert.equal(writes, 1);
});

test('a paused follower buffers nothing and delays nobody; it catches up from the executor, without a gap', async () => {
  const { relay, turn, follow } = make(2000);
  const paused = new TestSink();
  paused.full = true;
  const live = new TestSink();
  const slow = follow(paused, START, executor(500));
  follow(live);
  for (let n = 1; n <= 500; n++) {
    relay.receive('job', 1, token(n));
    turn();
  }
  assert.equal(live.events.length, 500);
  assert.equal(paused.events.length, 1);
  paused.full = false;
  slow.ready();
  await settle();
  relay.end('job', 1, END);
  await settle();
  assert.deepEqual(paused.ids, [...Array.from({ length: 500 }, (_, at) => `1.${at + 1}`), '1.end']);
});

test('a gap that neither log can fill is announced by a reset, and the end still comes', async () => {
  const { relay, follow } = make(500);
  for (let n = 1; n <= 200; n++) relay.receive('job', 1, token(n));
  const sink = new TestSink();
  follow(sink, { attempt: 1, n: 3 }, LOST, 1).pump();
  await settle();
  relay.end('job', 1, END);
  await settle();
  assert.equal(sink.names[0], 'reset');
  assert.equal(sink.ids.at(-2), '1.200');
  assert.equal(sink.ids.at(-1), '1.end');
});

test('a new attempt discards the events of the earlier one', () => {
  const { relay, turn, follow } = make();
  const sink = new TestSink();
  follow(sink);
  relay.receive('job', 1, token(1));
  turn();
  relay.receive('job', 2, token(1));
  turn();
  relay.end('job', 2, { ...END, id: '2.end' });
  assert.deepEqual(sink.names, ['token', 'reset', 'token', 'end']);
  assert.deepEqual(sink.ids, ['1.1', undefined, '2.1', '2.end']);
});

test('a follower of an ended job gets the rest while the executor still has it, else only the end', async () => {
  for (const [source, ids] of [
    [executor(3), ['1.1', '1.2', '1.3', '1.end']],
    [LOST, ['1.end']],
  ] as const) {
    const { follow } = make();
    const sink = new TestSink();
    const follower = follow(sink, START, source, 1);
    follower.finish(END);
    await settle();
    assert.deepEqual(sink.ids, ids);
    assert.equal(sink.ended, 1);
  }
});

test('a follower that was closed is forgotten, and nothing is written to it', () => {
  const { relay, turn, follow } = make();
  const sink = new TestSink();
  const follower = follow(sink);
  follower.close();
  follower.close();
  relay.receive('job', 1, token(1));
  turn();
  assert.equal(sink.events.length, 0);
  assert.equal(sink.ended, 1);
  relay.forget('job');
  assert.equal(relay.followersOf('job'), 0);
});

test('a follower that fell behind gets a reset for a gap, and continues from the log that reaches back further', async () => {
  const { relay, turn, follow } = make(20 * 70);
  const sink = new TestSink();
  const forgetful: ReadSource = async (_attempt, from, on): Promise<FollowEnd> => {
    for (let n = Math.max(from + 1, 95); n <= 100; n++) on(token(n));
    return { is: 'lost' };
  };
  const follower = follow(sink, START, forgetful, 1);
  relay.receive('job', 1, token(1));
  turn();
  sink.full = true;
  relay.receive('job', 1, token(2));
  turn();
  for (let n = 3; n <= 100; n++) relay.receive('job', 1, token(n));
  turn();
  sink.full = false;
  follower.ready();
  await settle();
  const gap = sink.names.indexOf('reset');
  assert.ok(gap > 0, 'the gap is announced');
  const after = sink.ids.slice(gap + 1);
  const first = Number(after[0]?.split('.')[1]);
  assert.ok(first < 95, `the brain's own log reaches further back: ${first}`);
  assert.deepEqual(
    after,
    Array.from({ length: 101 - first }, (_, at) => `1.${first + at}`),
  );
});

test('once nothing may be read any more, a follower that knows the end gets it alone; the others get theirs later', () => {
  const { relay, turn, follow } = make();
  const [slow, open] = [new TestSink(), new TestSink()];
  slow.full = true;
  const follower = follow(slow);
  relay.receive('job', 1, token(1));
  turn();
  relay.receive('job', 1, token(2));
  follower.finish(END);
  follow(open);
  relay.skipToEnd('job');
  assert.deepEqual([slow.ids, slow.ended], [['1.1', '1.end'], 1]);
  assert.equal(open.ended, 0);
  relay.endWith('job', END);
  assert.deepEqual([open.ids, open.ended], [['1.end'], 1]);
});

test('a pause is told to all followers when it begins and when it ends, and no other time', () => {
  const { relay, follow } = make();
  const [sink, second] = [new TestSink(), new TestSink()];
  relay.notePause('job', true, () => ({}));
  follow(sink);
  assert.equal(relay.isPaused('job', false), false);
  relay.notePause('job', false, () => ({}));
  relay.notePause('job', true, () => ({}));
  relay.notePause('job', true, () => ({}));
  follow(second);
  assert.equal(relay.isPaused('job', false), true, 'what was read may be older');
  relay.notePause('job', false, () => ({}));
  assert.deepEqual([sink.names, second.names], [['paused', 'resumed'], ['resumed']]);
  assert.equal(relay.isPaused('job', true), false);
});

test('a new follower of an ended job whose attempt still runs gets the end at once', async () => {
  const { follow } = make();
  const sink = new TestSink();
  const never: ReadSource = () => new Promise(() => undefined);
  const follower = follow(sink, START, never, 1);
  follower.finish(END, true);
  assert.deepEqual(sink.ids, ['1.end']);
});
