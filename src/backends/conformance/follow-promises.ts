/** Promises about following an execution: every reader gets every event once, whenever it begins to read. */
import assert from 'node:assert/strict';
import { Brain } from './brain.ts';
import type { BackendHarness } from './harness.ts';
import type { BackendPromise } from './promises.ts';
import { assertNumbered, contentsOf, outcomeOf } from './reader.ts';

export const FOLLOW_PROMISES: readonly BackendPromise[] = [
  { title: 'a reader gets every event once, numbered from 1 without gaps', check: everyEvent },
  {
    title: 'concurrent readers get the same events, also one that begins in the middle',
    check: concurrentReaders,
  },
  { title: 'after the end a reader gets the events after any number, and the end', check: anyNumber },
  { title: 'a reader gets an event while the work goes on, not only after it', check: live },
  { title: 'a reader that is stopped gets `lost` and no more events; the work goes on', check: stopped },
  {
    title: 'a reader that is stopped before it begins gets `lost` and no event, also after the end',
    check: stoppedBefore,
  },
  { title: 'a reader of an unknown token gets `lost`', check: unknown },
  { title: 'where an event has its data as text too, both are the same', check: sameText },
];

const PIECES = Array.from({ length: 20 }, (_, at) => `piece ${at}\n`);

async function sayAll(brain: Brain, token: string, pieces: readonly string[]): Promise<void> {
  for (const piece of pieces) await brain.execution(token).say(piece);
}

async function everyEvent(harness: BackendHarness): Promise<void> {
  const brain = new Brain(harness);
  const token = await brain.start('job');
  const reader = brain.read(token);
  await sayAll(brain, token, PIECES);
  await brain.execution(token).succeed();
  const outcome = outcomeOf(await harness.within(reader.end));
  assert.equal(outcome.ok, true);
  assertNumbered(reader.events, 0);
  assert.equal(reader.text, PIECES.join(''));
}

async function concurrentReaders(harness: BackendHarness): Promise<void> {
  const brain = new Brain(harness);
  const token = await brain.start('job');
  const first = [brain.read(token), brain.read(token)];
  await sayAll(brain, token, PIECES.slice(0, 5));
  const soFar = PIECES.slice(0, 5).join('');
  for (const reader of first) await harness.within(reader.until(({ text }) => text === soFar));
  const received = first[0]?.events.length ?? 0;
  const middle = [brain.read(token), brain.read(token, received - 2), brain.read(token, received)];
  await sayAll(brain, token, PIECES.slice(5));
  await brain.execution(token).succeed();
  const ends = await harness.within(Promise.all([...first, ...middle].map(({ end }) => end)));
  const whole = contentsOf(first[0]?.events ?? []);
  assertNumbered(first[0]?.events ?? [], 0);
  for (const end of ends) assert.deepEqual(end, ends[0], 'all get the same end');
  assert.deepEqual(contentsOf(first[1]?.events ?? []), whole);
  for (const [at, from] of [0, received - 2, received].entries()) {
    assert.deepEqual(contentsOf(middle[at]?.events ?? []), whole.slice(from), `from ${from}`);
  }
}

async function anyNumber(harness: BackendHarness): Promise<void> {
  const brain = new Brain(harness);
  const token = await brain.start('job');
  await sayAll(brain, token, PIECES.slice(0, 4));
  await brain.execution(token).succeed();
  const whole = await brain.readAll(token);
  assert.equal(whole.text, PIECES.slice(0, 4).join(''));
  for (let from = 0; from <= whole.contents.length; from++) {
    const { contents, outcome } = await brain.readAll(token, from);
    assert.deepEqual(contents, whole.contents.slice(from), `from ${from}`);
    assert.deepEqual(outcome, whole.outcome, `from ${from}`);
  }
}

async function live(harness: BackendHarness): Promise<void> {
  const brain = new Brain(harness);
  const token = await brain.start('job');
  const reader = brain.read(token);
  for (const [at, piece] of PIECES.slice(0, 3).entries()) {
    await brain.execution(token).say(piece);
    const soFar = PIECES.slice(0, at + 1).join('');
    await harness.within(reader.until(({ text }) => text === soFar));
  }
  assert.deepEqual(await brain.status(token), { is: 'running' });
}

async function stopped(harness: BackendHarness): Promise<void> {
  const brain = new Brain(harness);
  const token = await brain.start('job');
  const reader = brain.read(token);
  await sayAll(brain, token, PIECES.slice(0, 2));
  await harness.within(reader.until(({ text }) => text === PIECES.slice(0, 2).join('')));
  const received = reader.events.length;
  reader.stop();
  assert.deepEqual(await harness.within(reader.end), { is: 'lost' });
  assert.deepEqual(await brain.status(token), { is: 'running' });
  await sayAll(brain, token, PIECES.slice(2));
  await brain.execution(token).succeed();
  assert.equal((await brain.readAll(token, received)).text, PIECES.slice(2).join(''));
  assert.equal(reader.events.length, received);
}

async function stoppedBefore(harness: BackendHarness): Promise<void> {
  const brain = new Brain(harness);
  const running = await brain.start('running');
  await sayAll(brain, running, PIECES.slice(0, 2));
  for (const token of [running, await brain.finish('ended')]) {
    const received: unknown[] = [];
    const follow = harness.backend.follow(
      token,
      0,
      (event) => received.push(event),
      brain.who,
      AbortSignal.abort(),
    );
    assert.deepEqual(await harness.within(follow), { is: 'lost' }, token);
    assert.deepEqual(received, [], token);
  }
}

async function unknown(harness: BackendHarness): Promise<void> {
  const brain = new Brain(harness);
  const reader = brain.read(brain.token('never'));
  assert.deepEqual(await harness.within(reader.end), { is: 'lost' });
  assert.deepEqual(reader.events, []);
}

async function sameText(harness: BackendHarness): Promise<void> {
  const brain = new Brain(harness);
  const token = await brain.start('job');
  await sayAll(brain, token, ['plain\n', '"quoted" 🦊\n']);
  await brain.execution(token).succeed();
  const reader = brain.read(token);
  await harness.within(reader.end);
  for (const { data, text } of reader.events) {
    if (text !== undefined) assert.deepEqual(JSON.parse(text), JSON.parse(JSON.stringify(data)));
  }
}
