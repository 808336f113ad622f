/** Reading an execution: every event once, for every reader, whenever it comes. */
import assert from 'node:assert/strict';
import { Brain } from './brain.ts';
import type { BackendHarness } from './harness.ts';
import type { BackendPromise } from './promises.ts';
import { assertNumbered, contentsOf, outcomeOf } from './reader.ts';

export const FOLLOW_PROMISES: readonly BackendPromise[] = [
  { title: 'a reader gets every event once, numbered from 1 without gaps', show: everyEvent },
  { title: 'readers at once get the same events, also one that comes in the middle', show: together },
  { title: 'after the end a reader gets the events after any number, and the end', show: anyNumber },
  { title: 'a reader gets an event while the work goes on, not only after it', show: live },
  { title: 'a reader that is told to stop hears `lost` and nothing more; the work goes on', show: stopped },
  {
    title: 'a reader that was told to stop before it began hears `lost` and no event, also after the end',
    show: stoppedBefore,
  },
  { title: 'a reader of a token that is not known hears `lost`', show: unknown },
  { title: 'an event that comes with its data as text has the same in both', show: sameText },
];

const PIECES = Array.from({ length: 20 }, (_, at) => `piece ${at}\n`);

async function speak(brain: Brain, token: string, pieces: readonly string[]): Promise<void> {
  for (const piece of pieces) await brain.execution(token).say(piece);
}

async function everyEvent(harness: BackendHarness): Promise<void> {
  const brain = new Brain(harness);
  const token = await brain.start('job');
  const reader = brain.read(token);
  await speak(brain, token, PIECES);
  await brain.execution(token).succeed();
  const outcome = outcomeOf(await harness.within(reader.end));
  assert.equal(outcome.ok, true);
  assertNumbered(reader.events, 0);
  assert.equal(reader.text, PIECES.join(''));
}

async function together(harness: BackendHarness): Promise<void> {
  const brain = new Brain(harness);
  const token = await brain.start('job');
  const first = [brain.read(token), brain.read(token)];
  await speak(brain, token, PIECES.slice(0, 5));
  const soFar = PIECES.slice(0, 5).join('');
  for (const reader of first) await harness.within(reader.until(({ text }) => text === soFar));
  const heard = first[0]?.events.length ?? 0;
  const middle = [brain.read(token), brain.read(token, heard - 2), brain.read(token, heard)];
  await speak(brain, token, PIECES.slice(5));
  await brain.execution(token).succeed();
  const ends = await harness.within(Promise.all([...first, ...middle].map(({ end }) => end)));
  const whole = contentsOf(first[0]?.events ?? []);
  assertNumbered(first[0]?.events ?? [], 0);
  for (const end of ends) assert.deepEqual(end, ends[0], 'all hear the same end');
  assert.deepEqual(contentsOf(first[1]?.events ?? []), whole);
  for (const [at, from] of [0, heard - 2, heard].entries()) {
    assert.deepEqual(contentsOf(middle[at]?.events ?? []), whole.slice(from), `from ${from}`);
  }
}

async function anyNumber(harness: BackendHarness): Promise<void> {
  const brain = new Brain(harness);
  const token = await brain.start('job');
  await speak(brain, token, PIECES.slice(0, 4));
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
  await speak(brain, token, PIECES.slice(0, 2));
  await harness.within(reader.until(({ text }) => text === PIECES.slice(0, 2).join('')));
  const heard = reader.events.length;
  reader.stop();
  assert.deepEqual(await harness.within(reader.end), { is: 'lost' });
  assert.deepEqual(await brain.status(token), { is: 'running' });
  await speak(brain, token, PIECES.slice(2));
  await brain.execution(token).succeed();
  assert.equal((await brain.readAll(token, heard)).text, PIECES.slice(2).join(''));
  assert.equal(reader.events.length, heard);
}

async function stoppedBefore(harness: BackendHarness): Promise<void> {
  const brain = new Brain(harness);
  const running = await brain.start('running');
  await speak(brain, running, PIECES.slice(0, 2));
  for (const token of [running, await brain.finish('ended')]) {
    const heard: unknown[] = [];
    const follow = harness.backend.follow(
      token,
      0,
      (event) => heard.push(event),
      brain.who,
      AbortSignal.abort(),
    );
    assert.deepEqual(await harness.within(follow), { is: 'lost' }, token);
    assert.deepEqual(heard, [], token);
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
  await speak(brain, token, ['plain\n', '"quoted" 🦊\n']);
  await brain.execution(token).succeed();
  const reader = brain.read(token);
  await harness.within(reader.end);
  for (const { data, text } of reader.events) {
    if (text !== undefined) assert.deepEqual(JSON.parse(text), JSON.parse(JSON.stringify(data)));
  }
}
