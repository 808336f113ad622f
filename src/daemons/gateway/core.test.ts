import assert from 'node:assert/strict';
import { test } from 'node:test';
import { seatOrder } from '../../../test/fakes/fake-driver.ts';
import { GatewayCoreKit, RESERVATION_MS, TIMEOUT_MS, turns } from '../../../test/fakes/gateway-core-kit.ts';
import { OrchdError } from '../../model/errors.ts';

test('[FANO-5] a seat runs one request at a time; the same token again is the same request', async () => {
  const kit = await new GatewayCoreKit().open();
  assert.deepEqual([await kit.submit('a', '1'), await kit.submit('b', '2')], ['begun', 'occupied']);
  assert.equal(await kit.submit('a', '1'), 'begun');
  assert.deepEqual(kit.provider.prompts, ['1']);
  const { model, tag } = kit.provider.last.call;
  assert.equal(model, 'provider-m');
  assert.match(tag, /^[A-Za-z0-9_-]{1,64}$/);
  kit.provider.last.succeed();
  await turns();
  assert.equal(kit.outcome('a', '1')?.ok, true);
  assert.equal(await kit.submit('a', '1'), 'begun');
  assert.deepEqual(kit.provider.prompts, ['1']);
});

test('an offer, a kill and a job of the queue are answered once they are durable', async () => {
  const kit = await new GatewayCoreKit().open();
  const headers = { 'x-orchd-owner': 'a', 'x-orchd-epoch': '1' };
  await kit.core.requests.active(headers);
  kit.faulty.held = Promise.withResolvers();
  const answered: string[] = [];
  const note = (name: string) => () => void answered.push(name);
  const answers = [
    kit.core.requests
      .submit({ backend: 's', payload: 'x', idempotency_token: '1' }, headers)
      .then(note('offer')),
    kit.core.requests.kill('2', 'bury', headers).then(note('kill')),
    kit.core.queue.submit({ backend: 's', payload: 'x', job_id: 'j' }).then(note('job')),
  ];
  await turns();
  assert.deepEqual(answered, []);
  kit.faulty.held.resolve();
  await Promise.all(answers);
  const next = await kit.next();
  assert.equal(next.core.kept.memory.find('a', '2')?.is, 'tombstone');
  assert.equal(next.jobState('j'), 'queued');
  assert.equal(next.core.kept.memory.running, 1);
});

test('[FANO-6] a refused caller has the next turn, before later callers and before the queue', async () => {
  const kit = await new GatewayCoreKit().open();
  await kit.submit('a', 'a:1');
  await kit.enqueue('job');
  assert.equal(await kit.submit('b', 'b:1'), 'occupied');
  assert.equal(await kit.submit('c', 'c:1'), 'occupied');
  const { version } = kit.core.feed;
  await kit.submit('b', 'b:1');
  assert.equal(kit.core.feed.version, version, 'a renewal wakes nobody');
  kit.provider.last.succeed();
  await turns();
  assert.equal(kit.jobState('job'), 'queued');
  assert.equal(kit.core.state().seats[0]?.high_priority_pending, true);
  assert.equal(await kit.submit('c', 'c:1'), 'reserved');
  assert.equal(await kit.submit('b', 'b:1'), 'begun');
  kit.provider.last.succeed();
  await turns();
  assert.equal(kit.jobState('job'), 'queued', 'the reservation of c stands');
  await kit.pass(RESERVATION_MS);
  assert.equal(kit.jobState('job'), 'running', 'a reservation ends by itself');
});

test('[FANO-6] a request that leaves its seat free wakes nobody; the one that takes the last slot does, and so does its end', async () => {
  const kit = await new GatewayCoreKit().open([seatOrder('s', { slots: 2 })]);
  const { feed } = kit.core;
  const told = (): (string | undefined)[] => [String(feed.version), kit.core.state().seats[0]?.busy];
  const first = feed.version;
  await kit.submit('a', '1');
  assert.deepEqual(told(), [String(first), undefined]);
  await kit.submit('a', '2');
  assert.deepEqual(told(), [String(first + 1), 'occupied']);
  kit.provider.calls[0]?.succeed();
  await turns();
  assert.deepEqual(told(), [String(first + 2), undefined]);
  kit.provider.calls[1]?.succeed();
  await turns();
  assert.deepEqual(told(), [String(first + 2), undefined]);
  await kit.submit('a', '3');
  const turnedAway = { turnedAway: 'quota', retryAfterMs: 1000 } as const;
  kit.provider.last.fail(new OrchdError('RATE_LIMITED', undefined, turnedAway));
  await turns();
  assert.deepEqual(told(), [String(first + 3), 'quota']);
  await kit.pass(1000);
  assert.deepEqual(told(), [String(first + 4), undefined]);
});

test('a seat whose provider turns a request away rests, and the request says for how long', async () => {
  const kit = await new GatewayCoreKit().open();
  await kit.submit('a', '1');
  await kit.enqueue('job');
  kit.provider.last.fail(
    new OrchdError('RATE_LIMITED', undefined, { turnedAway: 'rate_limited', retryAfterMs: 7000 }),
  );
  await turns();
  const outcome = kit.outcome('a', '1');
  assert.ok(outcome?.ok === false);
  assert.deepEqual([outcome.error.turned_away, outcome.error.retry_after_ms], ['rate_limited', 7000]);
  assert.equal(await kit.submit('b', '2'), 'rate_limited');
  const [state] = kit.core.state().seats;
  assert.deepEqual(
    [state?.busy, state?.busy_until, state?.high_priority_pending],
    ['rate_limited', kit.now + 7000, false],
  );
  await kit.pass(6999);
  assert.equal(kit.jobState('job'), 'queued');
  const { version } = kit.core.feed;
  await kit.pass(1);
  assert.equal(kit.jobState('job'), 'running');
  assert.ok(kit.core.feed.version > version);
});

test('a request that runs too long is ended, and says what it has used', async () => {
  const kit = await new GatewayCoreKit().open();
  await kit.submit('a', '1', { timeout_ms: 500 });
  kit.provider.last.call.noteUsage({ prompt_tokens: 5, completion_tokens: 1 });
  await kit.pass(499);
  assert.equal(kit.outcome('a', '1'), undefined);
  await kit.pass(1);
  const outcome = kit.outcome('a', '1');
  assert.ok(outcome?.ok === false);
  assert.deepEqual([outcome.error.code, outcome.error.usage?.prompt_tokens], ['WORKER_TIMEOUT', 5]);
  await kit.submit('a', '2');
  await kit.pass(TIMEOUT_MS);
  assert.equal(kit.outcome('a', '2')?.ok, false);
});

test('the queue runs its jobs in order, and a job is not begun twice', async () => {
  const kit = await new GatewayCoreKit().open([seatOrder('s'), seatOrder('other')]);
  for (const id of ['j1', 'j2']) await kit.enqueue(id);
  await kit.enqueue('o1', { backend: 'other' });
  assert.equal((await kit.enqueue('j1')).state, 'running', 'the same id again is the same job');
  assert.deepEqual(kit.provider.prompts, ['j1', 'o1']);
  kit.provider.calls[0]?.succeed('one');
  await turns();
  assert.deepEqual(kit.provider.prompts, ['j1', 'o1', 'j2']);
  const job = kit.core.queue.view('j1');
  assert.deepEqual([job.state, job.attempts, job.outcome?.ok], ['ended', 1, true]);
});

test('preempt ends what the queue runs, and its job is the first of the queue again', async () => {
  const kit = await new GatewayCoreKit().open();
  for (const id of ['j1', 'j2']) await kit.enqueue(id);
  kit.provider.last.call.noteUsage({ prompt_tokens: 3, completion_tokens: 4 });
  assert.equal(await kit.submit('a', 'a:1'), 'occupied');
  assert.equal(kit.provider.last.call.signal.aborted, false, 'without preempt it goes on');
  assert.equal(await kit.submit('a', 'a:1', { preempt: true }), 'occupied');
  assert.deepEqual([kit.jobState('j1'), kit.jobState('j2')], ['queued', 'queued']);
  assert.equal(await kit.submit('b', 'b:1', { preempt: true }), 'reserved');
  assert.equal(await kit.submit('a', 'a:1'), 'begun');
  kit.provider.last.succeed();
  await turns();
  const restarted = await kit.next();
  assert.deepEqual(restarted.core.queue.view('j1'), {
    job_id: 'j1',
    backend: 's',
    state: 'queued',
    attempts: 1,
    usage: { prompt_tokens: 3, completion_tokens: 4 },
  });
  await kit.pass(RESERVATION_MS);
  kit.provider.last.succeed();
  await turns();
  assert.deepEqual(kit.provider.prompts, ['j1', 'a:1', 'j1', 'j2']);
  const { attempts, usage } = kit.core.queue.view('j1');
  assert.deepEqual([attempts, usage], [2, { prompt_tokens: 4, completion_tokens: 6 }]);
});

test('a job that was being preempted when the gateway died is resumed, and not begun again', async () => {
  const kit = new GatewayCoreKit();
  kit.provider.obeysSignals = false;
  await kit.open();
  await kit.enqueue('j');
  await kit.submit('a', 'a:1', { preempt: true });
  assert.ok(kit.provider.last.call.signal.aborted);
  const next = await kit.next();
  next.follow([seatOrder('s')]);
  await turns();
  assert.deepEqual([kit.provider.last.isResumed, kit.provider.last.call.signal.aborted], [true, false]);
  kit.provider.last.fail(new OrchdError('UNKNOWN_OUTCOME'));
  await turns();
  assert.deepEqual([next.jobState('j'), next.core.queue.view('j').attempts], ['ended', 1]);
  assert.deepEqual(kit.provider.prompts, ['j']);
});

test('a job that the provider turns away is the first of the queue again, and waits until the seat has rested', async () => {
  const kit = await new GatewayCoreKit().open();
  for (const id of ['j1', 'j2']) await kit.enqueue(id);
  kit.provider.last.fail(new OrchdError('RATE_LIMITED', undefined, { turnedAway: 'overloaded' }));
  await turns();
  assert.deepEqual([kit.jobState('j1'), kit.jobState('j2')], ['queued', 'queued']);
  await kit.pass(1000);
  assert.deepEqual(kit.provider.prompts, ['j1', 'j1']);
  kit.provider.last.fail(new OrchdError('EXECUTION_FAILED'));
  await turns();
  assert.deepEqual([kit.jobState('j1'), kit.jobState('j2')], ['ended', 'running']);
});

test('a seat with preempt needs no word of the caller; an immediate request is never preempted', async () => {
  const kit = await new GatewayCoreKit().open([seatOrder('s', { preempt: true })]);
  await kit.enqueue('j1');
  await kit.submit('a', 'a:1');
  assert.equal(kit.jobState('j1'), 'queued');
  assert.equal(await kit.submit('a', 'a:1'), 'begun');
  assert.equal(await kit.submit('b', 'b:1', { preempt: true }), 'occupied');
  assert.equal(kit.provider.last.call.signal.aborted, false);
});

test('a job of the queue is cancelled: while it waits, while it runs, and while it is preempted', async () => {
  const kit = await new GatewayCoreKit().open();
  for (const id of ['runs', 'waits']) await kit.enqueue(id);
  assert.equal((await kit.core.queue.cancel('waits')).state, 'ended');
  kit.provider.obeysSignals = false;
  await kit.core.queue.cancel('runs');
  await turns();
  assert.equal(kit.jobState('runs'), 'ended');
  assert.equal((await kit.next()).jobState('waits'), 'ended');
  const slow = new GatewayCoreKit();
  slow.provider.obeysSignals = false;
  await slow.open();
  await slow.enqueue('j');
  await slow.submit('a', 'a:1', { preempt: true });
  await slow.core.queue.cancel('j');
  slow.provider.last.fail(new OrchdError('CANCELLED'));
  await turns();
  assert.equal(slow.jobState('j'), 'ended', 'it is not begun again');
});

test('the queue has a bound in jobs and in bytes, and forgets ended jobs', async () => {
  const kit = await new GatewayCoreKit().open([seatOrder('s')], { maxJobs: 2, maxBytes: 1000, maxEnded: 1 });
  await kit.enqueue('j1');
  await assert.rejects(kit.enqueue('large', { payload: 'x'.repeat(1000) }), { code: 'QUEUE_FULL' });
  await kit.enqueue('j2');
  await assert.rejects(kit.enqueue('j3'), { code: 'QUEUE_FULL' });
  kit.provider.last.succeed();
  await turns();
  await kit.enqueue('j3');
  kit.provider.last.succeed();
  await turns();
  assert.throws(() => kit.core.queue.view('j1'), { code: 'NOT_FOUND' });
  assert.equal(kit.jobState('j2'), 'ended');
});

test('[FANO-9] the next process resumes what ran, begins nothing again, and knows what has ended', async () => {
  const kit = await new GatewayCoreKit().open([seatOrder('s'), seatOrder('gone'), seatOrder('q')]);
  await kit.submit('a', 'ran');
  await kit.provider.last.call.keepId('id-1');
  await kit.submit('a', 'lost', { backend: 'gone' });
  await kit.enqueue('job', { backend: 'q' });
  await kit.enqueue('waits', { backend: 'q' });
  const next = await kit.next();
  assert.equal(next.core.kept.memory.registry, kit.core.kept.memory.registry);
  assert.equal(await next.submit('a', 'new'), 'WORKER_BUSY', 'it has not been told about its seats');
  const before = kit.provider.calls.length;
  next.follow([seatOrder('s'), seatOrder('q')]);
  await turns();
  const resumed = kit.provider.calls.slice(before);
  assert.deepEqual(
    resumed.map(({ seat, isResumed }) => [seat, isResumed]),
    [
      ['s', true],
      ['q', true],
    ],
  );
  const [first, second] = resumed;
  assert.ok(first && 'id' in first.call && first.call.id === 'id-1' && first.call.begunAt === kit.now);
  assert.equal(await next.submit('b', 'later'), 'occupied');
  const lost = next.outcome('a', 'lost');
  assert.ok(lost?.ok === false && lost.error.code === 'UNKNOWN_OUTCOME');
  first.succeed('found');
  second?.fail(new OrchdError('UNKNOWN_OUTCOME'));
  await turns();
  const found = next.outcome('a', 'ran');
  assert.ok(found?.ok === true && found.result.text === 'found');
  const job = next.core.queue.view('job');
  assert.ok(job.outcome?.ok === false && job.outcome.error.code === 'UNKNOWN_OUTCOME');
  assert.deepEqual([job.attempts, next.jobState('waits')], [1, 'running']);
});

test('a request that was killed before its seat came back is ended by the driver, not by a guess', async () => {
  const kit = await new GatewayCoreKit().open();
  await kit.submit('a', '1');
  const next = await kit.next();
  const headers = { 'x-orchd-owner': 'a', 'x-orchd-epoch': '1' };
  assert.equal((await next.core.requests.kill('1', 'end', headers)).is, 'stopping');
  next.follow([seatOrder('s')]);
  await turns();
  assert.ok(kit.provider.last.isResumed && kit.provider.last.call.signal.aborted);
  assert.deepEqual(next.outcome('a', '1'), { ok: 'cancelled' });
});

test('a seat that changes gets a new driver; the old one is closed when its last call has ended', async () => {
  const kit = await new GatewayCoreKit().open();
  await kit.submit('a', '1');
  kit.follow([seatOrder('s', { key: 'new', slots: 2 })]);
  assert.deepEqual(kit.provider.closed, []);
  assert.equal(await kit.submit('a', '2'), 'begun');
  kit.provider.calls[0]?.succeed();
  await turns();
  assert.deepEqual(kit.provider.closed, ['s']);
  kit.follow([]);
  assert.equal(await kit.submit('a', '3'), 'NOT_FOUND');
  kit.provider.last.succeed();
  await turns();
  assert.deepEqual([kit.outcome('a', '2')?.ok, kit.provider.closed], [true, ['s', 's']]);
});

test('a full disk: an immediate request is refused, and the queue tries again later, without a call', async () => {
  const kit = await new GatewayCoreKit().open();
  await kit.submit('x', 'x');
  await kit.enqueue('job');
  kit.faulty.maxFileBytes = 0;
  kit.provider.last.succeed();
  await turns();
  assert.equal(await kit.submit('x', '1'), 'occupied', 'the result of x is not durable yet');
  kit.faulty.maxFileBytes = Number.POSITIVE_INFINITY;
  await kit.pass(1000);
  kit.faulty.maxFileBytes = 0;
  assert.equal(await kit.submit('x', '1'), 'WORKER_BUSY');
  await kit.pass(RESERVATION_MS);
  assert.deepEqual([kit.provider.prompts, kit.jobState('job')], [['x'], 'queued']);
  kit.faulty.maxFileBytes = Number.POSITIVE_INFINITY;
  await kit.pass(1000);
  assert.deepEqual([kit.provider.prompts, kit.jobState('job')], [['x', 'job'], 'running']);
});

test('an owner may not take the names of the gateway, and an older opening is fenced', async () => {
  const kit = await new GatewayCoreKit().open();
  assert.equal(await kit.submit('queue', '1'), 'FORBIDDEN');
  const headers = (epoch: number) => ({ 'x-orchd-owner': 'a', 'x-orchd-epoch': String(epoch) });
  await kit.core.requests.active(headers(5));
  assert.equal(await kit.submit('a', '1'), 'FENCED');
  await assert.rejects(kit.core.requests.acknowledge('1', headers(4)), { code: 'FENCED' });
});

test('of the ended jobs of the queue those that ended first are forgotten, whenever they were submitted', async () => {
  const kit = await new GatewayCoreKit().open([seatOrder('s')], { maxEnded: 1 });
  await kit.enqueue('early');
  kit.provider.last.succeed();
  await turns();
  await kit.pass(1);
  await kit.enqueue('late');
  const later = { turnedAway: 'rate_limited', retryAfterMs: 50 } as const;
  kit.provider.last.fail(new OrchdError('RATE_LIMITED', 'later', later));
  await turns();
  // It was put back before all others, and runs again.
  await kit.pass(50);
  kit.provider.last.succeed();
  await turns();
  const ended = ['early', 'late'].filter((id) => {
    try {
      return kit.jobState(id) === 'ended';
    } catch {
      return false;
    }
  });
  assert.deepEqual(ended, ['late']);
});
