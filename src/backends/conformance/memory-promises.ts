/**
 * Promises about restarts and lost memory: kept results are still reported, and a token that was forgotten never looks
 * like a token that did not run.
 */
import assert from 'node:assert/strict';
import { Brain } from './brain.ts';
import type { BackendHarness } from './harness.ts';
import { type BackendPromise, needsDiskMemory, needsForeignStop, needsKeptResults } from './promises.ts';
import { resultOf } from './reader.ts';

export const MEMORY_PROMISES: readonly BackendPromise[] = [
  {
    title:
      'results survive a restart of the brain where `keepsResults` says so; otherwise the registry changes',
    check: resultOverRestart,
  },
  {
    title: 'work goes on during a restart of the brain, and a reader resumes where it was',
    skipReason: needsKeptResults,
    check: workOverRestart,
  },
  {
    title: 'a copy of an offer after a restart of the brain begins nothing',
    skipReason: needsKeptResults,
    check: copyAfterRestart,
  },
  {
    title:
      'an executor that restarts with its memory reports its results; the outcome of what it ran is unknown',
    skipReason: needsDiskMemory,
    check: executorRestarts,
  },
  {
    title: 'an executor that somebody else stops in the middle reports no outcome of what it ran',
    skipReason: needsForeignStop,
    check: foreignStop,
  },
  {
    title: 'after the memory is lost, no answer about a token proves that it did not run',
    check: memoryLost,
  },
  {
    title: 'after the memory is lost, an offer that names the former registry is answered with busy',
    check: lateCopy,
  },
  {
    title: 'a reader of an execution whose executor dies gets no outcome',
    skipReason: needsKeptResults,
    check: readerOfDeadExecutor,
  },
];

/** What an attempt records about the executor's memory when it is intended. */
interface Intent {
  readonly registry: string;
  readonly at: number;
}

const intend = async (harness: BackendHarness, brain: Brain): Promise<Intent> => ({
  registry: (await brain.inspect()).registry,
  at: harness.now(),
});

/** The brain's rule: only a memory that covers the intent proves, by not knowing the token, that it never ran. */
const remembers = (memory: { registry: string; rememberedSince: number }, intent: Intent): boolean =>
  memory.registry === intent.registry && memory.rememberedSince <= intent.at;

/** Checks that neither an inspection nor a kill denies that this token ran. */
async function assertNotDenied(brain: Brain, token: string, intent: Intent): Promise<void> {
  const inspection = await brain.inspect(token);
  const isDenied = !inspection.known.has(token) && remembers(inspection, intent);
  assert.ok(!isDenied, 'an inspection denies that the token ran');
  const reply = await brain.kill(token, 'bury');
  assert.ok(reply.is !== 'tombstoned' || !remembers(reply, intent), 'a kill denies that the token ran');
}

async function resultOverRestart(harness: BackendHarness): Promise<void> {
  const brain = new Brain(harness);
  const intent = await intend(harness, brain);
  const token = await brain.finish('job', 'kept\n');
  const whole = await brain.readAll(token);
  await harness.restartBrain();
  if (!harness.backend.info.keepsResults) {
    const { registry, known } = await brain.inspect(token);
    assert.ok(registry !== intent.registry || known.has(token));
    return assertNotDenied(brain, token, intent);
  }
  assert.deepEqual(await brain.status(token), { is: 'ended', outcome: whole.outcome });
  assert.deepEqual(await brain.readAll(token), whole);
  assert.equal((await brain.inspect()).registry, intent.registry, 'its memory is the same');
  await brain.ack(token);
}

async function workOverRestart(harness: BackendHarness): Promise<void> {
  const brain = new Brain(harness);
  const token = await brain.start('job');
  const before = brain.read(token);
  await brain.execution(token).say('before\n');
  await harness.within(before.until(({ text }) => text === 'before\n'));
  await harness.restartBrain();
  assert.deepEqual(await brain.status(token), { is: 'running' });
  const after = brain.read(token, before.events.length);
  await brain.execution(token).say('after\n');
  await brain.execution(token).succeed();
  await harness.within(after.end);
  assert.equal(after.text, 'after\n');
  assert.equal(resultOf(await brain.outcome(token)), 'before\nafter\n');
  assert.equal(harness.begun(token), 1);
}

async function copyAfterRestart(harness: BackendHarness): Promise<void> {
  const brain = new Brain(harness);
  const tokens = [await brain.finish('ended'), await brain.start('running')];
  await harness.restartBrain();
  for (const token of tokens) {
    assert.deepEqual(await brain.offer(token), { is: 'accepted' });
    assert.equal(harness.begun(token), 1);
  }
}

async function executorRestarts(harness: BackendHarness): Promise<void> {
  const old = new Brain(harness);
  const brain = old.successor();
  const intent = await intend(harness, brain);
  const ended = await brain.finish('ended', 'kept\n');
  const running = await brain.start('running');
  const killed = brain.token('killed');
  await brain.kill(killed);
  await harness.restartExecutor?.();
  assert.equal(resultOf(await brain.outcome(ended)), 'kept\n');
  await assertNotDenied(brain, running, intent);
  assert.equal((await brain.status(running))?.is, 'forgotten');
  assert.equal((await brain.kill(running)).is, 'forgotten');
  assert.equal((await harness.within(brain.read(running).end)).is, 'forgotten');
  assert.equal((await brain.offer(killed)).is, 'refused');
  assert.deepEqual(await brain.offer(running), { is: 'accepted' });
  assert.deepEqual(await old.offer(old.token('old')), { is: 'fenced' });
  assert.deepEqual([harness.begun(running), harness.begun(killed)], [1, 0]);
  assert.ok(remembers(await brain.inspect(), intent), 'what it does not know has never run');
}

async function foreignStop(harness: BackendHarness): Promise<void> {
  const brain = new Brain(harness);
  const token = await brain.start('job');
  const reader = brain.read(token);
  await harness.stopExecutor?.();
  const end = await harness.within(reader.end.catch(() => ({ is: 'lost' }) as const));
  assert.notEqual(end.is, 'ended', 'the work may have been done before it was stopped');
}

async function memoryLost(harness: BackendHarness): Promise<void> {
  const brain = new Brain(harness);
  const intent = await intend(harness, brain);
  const tokens = [await brain.finish('ended'), await brain.start('running')];
  await harness.loseMemory();
  for (const token of tokens) await assertNotDenied(brain, token, intent);
}

async function lateCopy(harness: BackendHarness): Promise<void> {
  const brain = new Brain(harness);
  const { registry } = await brain.inspect();
  const token = await brain.finish('job');
  await brain.ack(token);
  await harness.loseMemory();
  assert.equal((await brain.offer(token, { registry })).is, 'busy');
  assert.equal(harness.begun(token), 1);
  const next = brain.token('next');
  assert.deepEqual(await brain.offer(next, { registry: harness.backend.info.registry }), { is: 'accepted' });
}

async function readerOfDeadExecutor(harness: BackendHarness): Promise<void> {
  const brain = new Brain(harness);
  const token = await brain.start('job');
  const reader = brain.read(token);
  await brain.execution(token).say('last words\n');
  await harness.within(reader.until(({ text }) => text === 'last words\n'));
  await harness.loseMemory();
  const end = await harness.within(reader.end.catch(() => ({ is: 'lost' }) as const));
  assert.notEqual(end.is, 'ended', 'the work may have been done before it was cut off');
}
