import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Execution } from './execution.ts';
import { Memory, type MemoryLimits } from './memory.ts';

class Story {
  now = 1000;
  readonly clock = { now: () => this.now, monotonic: () => this.now };
  readonly memory: Memory;

  constructor(limits: Partial<MemoryLimits> = {}) {
    this.memory = new Memory('r', this.clock, limits);
  }

  begin(token: string, owner = 'me'): Execution {
    this.now++;
    const parts = { owner, token, jobId: `job-${token}`, model: 'm', maxLogBytes: 10_000 };
    const execution = new Execution({ ...parts, clock: this.clock });
    this.memory.add(execution);
    return execution;
  }

  run(token: string, text = '', owner = 'me'): void {
    const execution = this.begin(token, owner);
    execution.succeed({ text });
    this.memory.ended(execution);
  }

  what(token: string, owner = 'me'): string | undefined {
    return this.memory.find(owner, token)?.is;
  }
}

test('a token stays known from its beginning past its acknowledgement', () => {
  const story = new Story();
  const execution = story.begin('a');
  assert.equal(story.what('a'), 'execution');
  story.memory.acknowledge('me', 'a');
  assert.equal(story.what('a'), 'execution', 'one that runs has nothing to acknowledge');
  execution.succeed({ text: 'x' });
  story.memory.ended(execution);
  assert.deepEqual([story.memory.running, story.memory.waiting], [0, 1]);
  story.memory.acknowledge('me', 'a');
  assert.deepEqual([story.what('a'), story.memory.waiting], ['forgotten', 0]);
  assert.deepEqual(story.memory.list('me'), []);
});

test('what was acknowledged can be read for a while, within bounds', () => {
  const story = new Story({ maxAcked: 2, maxAckedBytes: 20_000, maxAckedMs: 100 });
  const readable = (...tokens: string[]): boolean[] =>
    tokens.map((token) => story.memory.readable('me', token) !== undefined);
  const acknowledged = (token: string, text = ''): void => {
    story.run(token, text);
    story.memory.acknowledge('me', token);
  };
  for (const token of ['a', 'b', 'c']) acknowledged(token);
  assert.deepEqual(readable('a', 'b', 'c'), [false, true, true], 'so many');
  assert.equal(story.memory.readable('other', 'c'), undefined);
  acknowledged('large', 'x'.repeat(9000));
  assert.deepEqual(readable('b', 'c', 'large'), [false, true, true]);
  acknowledged('larger', 'x'.repeat(9500));
  assert.deepEqual(readable('c', 'large', 'larger'), [false, false, true], 'so large');
  story.now += 101;
  story.memory.makeRoom();
  assert.deepEqual(readable('larger'), [false], 'so long');
  story.run('ended');
  assert.deepEqual(readable('ended', 'never'), [true, false]);
});

test('tokens belong to their owner', () => {
  const story = new Story();
  story.run('a');
  story.memory.bury('other', 'a');
  assert.deepEqual([story.what('a'), story.what('a', 'other')], ['execution', 'tombstone']);
  assert.deepEqual(story.memory.list('other'), []);
});

test('results go when there are too many, too large or too old, the first that ended first', () => {
  const many = new Story({ maxEnded: 2 });
  for (const token of ['a', 'b', 'c']) many.run(token);
  assert.deepEqual(
    ['a', 'b', 'c'].map((token) => many.what(token)),
    ['forgotten', 'execution', 'execution'],
  );
  const large = new Story({ maxEndedBytes: 5000 });
  for (const token of ['a', 'b']) large.run(token, 'x'.repeat(1500));
  assert.deepEqual(
    ['a', 'b'].map((token) => large.what(token)),
    ['forgotten', 'execution'],
  );
  const old = new Story({ maxEndedMs: 100 });
  old.run('a');
  old.now += 60;
  old.run('b');
  old.now += 60;
  old.memory.makeRoom();
  assert.deepEqual(
    ['a', 'b'].map((token) => old.what(token)),
    ['forgotten', 'execution'],
  );
});

test('what was dropped without having been acknowledged is still listed as ended', () => {
  const story = new Story({ maxEnded: 1 });
  story.run('a');
  story.run('b');
  const listed = story.memory.list('me').map(({ token, what }) => [token, what.is]);
  assert.deepEqual(listed, [
    ['a', 'forgotten'],
    ['b', 'execution'],
  ]);
});

test('a token that is forgotten altogether moves the beginning of the memory past it', () => {
  const story = new Story({ maxTokens: 3 });
  assert.equal(story.memory.rememberedSince, 1000);
  const running = story.begin('a');
  story.now = 2000;
  story.memory.bury('me', 'b');
  story.now = 3000;
  story.memory.bury('me', 'c');
  assert.equal(story.memory.rememberedSince, 1000);
  story.memory.bury('me', 'd');
  assert.equal(story.what('b'), undefined);
  assert.equal(story.memory.rememberedSince, 2001);
  assert.equal(story.what('a'), 'execution', 'what runs is never forgotten');
  assert.equal(running.outcome, undefined);
});

test('a clock that is set back does not make the memory reach back further', () => {
  const story = new Story({ maxTokens: 1 });
  story.now = 5000;
  story.memory.bury('me', 'a');
  story.now = 2000;
  story.memory.bury('me', 'b');
  story.memory.bury('me', 'c');
  assert.equal(story.memory.rememberedSince, 5001);
});

test('one that was told to stop has been cancelled, whatever its engine threw', () => {
  const story = new Story();
  const execution = story.begin('a');
  execution.cancel();
  execution.fail(new Error('something else'));
  assert.deepEqual(execution.outcome, { ok: 'cancelled' });
  assert.match(execution.log.after(1, 1000)[0]?.text ?? '', /event: error\ndata: {"code":"CANCELLED"/);
});

test('an engine that throws what is not ours tells the caller nothing of it', () => {
  const execution = new Story().begin('a');
  execution.fail(new Error('/secret/path'));
  assert.doesNotMatch(JSON.stringify(execution.outcome), /secret/);
});
