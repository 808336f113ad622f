import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Execution } from './execution.ts';
import { TokenMemory, type TokenMemoryLimits } from './token-memory.ts';

/** A memory with a clock that the test sets. */
class MemoryKit {
  now = 1000;
  readonly clock = { now: () => this.now, monotonic: () => this.now };
  readonly memory: TokenMemory;

  constructor(limits: Partial<TokenMemoryLimits> = {}) {
    this.memory = new TokenMemory('r', this.clock, { limits });
  }

  begin(token: string, owner = 'me'): Execution {
    this.now++;
    const options = { owner, token, jobId: `job-${token}`, model: 'm', maxLogBytes: 10_000 };
    const execution = new Execution({ ...options, clock: this.clock });
    this.memory.add(execution);
    return execution;
  }

  run(token: string, text = '', owner = 'me'): void {
    const execution = this.begin(token, owner);
    execution.succeed({ text });
    this.memory.ended(execution);
  }

  state(token: string, owner = 'me'): string | undefined {
    return this.memory.find(owner, token)?.is;
  }
}

test('a token stays known from its start until after its acknowledgement', () => {
  const kit = new MemoryKit();
  const execution = kit.begin('a');
  assert.equal(kit.state('a'), 'execution');
  kit.memory.acknowledge('me', 'a');
  assert.equal(kit.state('a'), 'execution', 'an acknowledgement of a running execution changes nothing');
  execution.succeed({ text: 'x' });
  kit.memory.ended(execution);
  assert.deepEqual([kit.memory.running, kit.memory.unacknowledged], [0, 1]);
  kit.memory.acknowledge('me', 'a');
  assert.deepEqual([kit.state('a'), kit.memory.unacknowledged], ['forgotten', 0]);
  assert.deepEqual(kit.memory.list('me'), []);
});

test('acknowledged executions stay readable for a while, within the limits', () => {
  const kit = new MemoryKit({ maxAcked: 2, maxAckedBytes: 20_000, maxAckedMs: 100 });
  const readable = (...tokens: string[]): boolean[] =>
    tokens.map((token) => kit.memory.readable('me', token) !== undefined);
  const acknowledged = (token: string, text = ''): void => {
    kit.run(token, text);
    kit.memory.acknowledge('me', token);
  };
  for (const token of ['a', 'b', 'c']) acknowledged(token);
  assert.deepEqual(readable('a', 'b', 'c'), [false, true, true], 'limit of their number');
  assert.equal(kit.memory.readable('other', 'c'), undefined);
  acknowledged('large', 'x'.repeat(9000));
  assert.deepEqual(readable('b', 'c', 'large'), [false, true, true]);
  acknowledged('larger', 'x'.repeat(9500));
  assert.deepEqual(readable('c', 'large', 'larger'), [false, false, true], 'limit of their bytes');
  kit.now += 101;
  kit.memory.makeRoom();
  assert.deepEqual(readable('larger'), [false], 'limit of their age');
  kit.run('ended');
  assert.deepEqual(readable('ended', 'never'), [true, false]);
});

test('tokens belong to their owner', () => {
  const kit = new MemoryKit();
  kit.run('a');
  kit.memory.addTombstone('other', 'a');
  assert.deepEqual([kit.state('a'), kit.state('a', 'other')], ['execution', 'tombstone']);
  assert.deepEqual(kit.memory.list('other'), []);
});

test('results are dropped when there are too many, too large or too old, in the order in which they ended', () => {
  const many = new MemoryKit({ maxEnded: 2 });
  for (const token of ['a', 'b', 'c']) many.run(token);
  assert.deepEqual(
    ['a', 'b', 'c'].map((token) => many.state(token)),
    ['forgotten', 'execution', 'execution'],
  );
  const large = new MemoryKit({ maxEndedBytes: 5000 });
  for (const token of ['a', 'b']) large.run(token, 'x'.repeat(1500));
  assert.deepEqual(
    ['a', 'b'].map((token) => large.state(token)),
    ['forgotten', 'execution'],
  );
  const old = new MemoryKit({ maxEndedMs: 100 });
  old.run('a');
  old.memory.list('me');
  old.now += 60;
  old.run('b');
  old.memory.list('me');
  old.now += 60;
  old.memory.makeRoom();
  assert.deepEqual(
    ['a', 'b'].map((token) => old.state(token)),
    ['forgotten', 'execution'],
  );
});

test('a result that its owner has not asked for is not dropped by its age: the brain may be down for days', () => {
  const kit = new MemoryKit({ maxEndedMs: 100 });
  kit.run('a');
  kit.memory.list('other');
  kit.now += 1e9;
  kit.memory.makeRoom();
  assert.equal(kit.state('a'), 'execution');
  kit.memory.list('me');
  kit.memory.makeRoom();
  assert.equal(kit.state('a'), 'execution', 'its time begins with the question');
  kit.now += 101;
  kit.memory.makeRoom();
  assert.equal(kit.state('a'), 'forgotten');
});

test('a dropped result that was not acknowledged is still listed as ended', () => {
  const kit = new MemoryKit({ maxEnded: 1 });
  kit.run('a');
  kit.run('b');
  const listed = kit.memory.list('me').map(({ token, record }) => [token, record.is]);
  assert.deepEqual(listed, [
    ['a', 'forgotten'],
    ['b', 'execution'],
  ]);
});

test('removing a token moves rememberedSince past it', () => {
  const kit = new MemoryKit({ maxTokens: 3 });
  assert.equal(kit.memory.rememberedSince, 1000);
  const running = kit.begin('a');
  kit.now = 2000;
  kit.memory.addTombstone('me', 'b');
  kit.now = 3000;
  kit.memory.addTombstone('me', 'c');
  assert.equal(kit.memory.rememberedSince, 1000);
  kit.memory.addTombstone('me', 'd');
  assert.equal(kit.state('b'), undefined);
  assert.equal(kit.memory.rememberedSince, 2001);
  assert.equal(kit.state('a'), 'execution', 'a running execution is never removed');
  assert.equal(running.outcome, undefined);
});

test('a clock that is set back does not move rememberedSince back', () => {
  const kit = new MemoryKit({ maxTokens: 1 });
  kit.now = 5000;
  kit.memory.addTombstone('me', 'a');
  kit.now = 2000;
  kit.memory.addTombstone('me', 'b');
  kit.memory.addTombstone('me', 'c');
  assert.equal(kit.memory.rememberedSince, 5001);
});

test('the outcome of a cancelled execution is cancelled, whatever its engine threw', () => {
  const kit = new MemoryKit();
  const execution = kit.begin('a');
  execution.cancel();
  execution.fail(new Error('something else'));
  assert.deepEqual(execution.outcome, { ok: 'cancelled' });
  assert.match(execution.log.after(1, 1000)[0]?.text ?? '', /event: error\ndata: {"code":"CANCELLED"/);
});

test('the caller sees no details of an error that is not an OrchdError', () => {
  const execution = new MemoryKit().begin('a');
  execution.fail(new Error('/secret/path'));
  assert.doesNotMatch(JSON.stringify(execution.outcome), /secret/);
});

test('room for results is made by the owner that has most of them', () => {
  const kit = new MemoryKit({ maxEnded: 4 });
  kit.run('first', 'x', 'careful');
  for (let n = 0; n < 6; n++) kit.run(`n${n}`, 'x', 'careless');
  assert.equal(kit.state('first', 'careful'), 'execution');
  assert.equal(kit.memory.unacknowledged, 4);
});

test('tombstones make room before a token that has run', () => {
  const kit = new MemoryKit({ maxTokens: 4 });
  kit.run('ran');
  kit.memory.acknowledge('me', 'ran');
  for (let n = 0; n < 10; n++) kit.memory.addTombstone('other', `t${n}`);
  assert.equal(kit.state('ran'), 'forgotten');
  assert.ok(kit.memory.rememberedSince > 1000);
});
