/** Promises about exclusive writing, and about a store whose writes fail. */
import assert from 'node:assert/strict';
import { OrchdError } from '../../model/errors.ts';
import { Opened, type StoreFixture } from './opened.ts';
import type { StorePromise } from './promises.ts';

export const OPENING_PROMISES: readonly StorePromise[] = [
  ['of two openers only one writes', oneWriter],
  ['after close the store can be opened again', reopens],
  ['after a failure every append throws, and nothing more is reported durable', failed],
  ['a store that failed can be closed', closesAfterFailure],
  ['a store whose last write fails during close still closes', closesWhileFailing],
  ['a store that failed closes while a checkpoint is requested', closesAfterCheckpoint],
];

async function oneWriter(fixture: StoreFixture): Promise<void> {
  const first = await Opened.on(fixture);
  first.submit('a');
  await first.settled();
  const second = new Opened(fixture.make());
  if (first.store.capabilities.secondOpener === 'exclusive') {
    await assert.rejects(second.open(), { code: 'STORE_LOCKED' });
    first.submit('b');
    await first.settled();
    await second.store.close();
    await first.close();
    return;
  }
  await second.open();
  second.submit('b');
  await second.settled();
  first.submit('c');
  await assert.rejects(first.settled(), { code: 'FENCED' });
  assert.equal(first.durable, 1);
  await second.close();
  const third = await Opened.on(fixture);
  assert.deepEqual([...third.engine.state.jobs.keys()], ['a', 'b']);
  await third.close();
}

async function reopens(fixture: StoreFixture): Promise<void> {
  for (let round = 0; round < 3; round++) {
    const opened = await Opened.on(fixture);
    opened.submit(`j${round}`);
    await opened.close();
  }
}

/** A store whose last append has failed. */
async function broken(fixture: StoreFixture): Promise<Opened> {
  const opened = await Opened.on(fixture);
  opened.submit('a');
  await opened.settled();
  await fixture.breakWrites();
  opened.submit('b');
  await assert.rejects(opened.settled());
  return opened;
}

async function failed(fixture: StoreFixture): Promise<void> {
  const opened = await broken(fixture);
  const { durable } = opened;
  for (let n = 0; n < 3; n++) {
    assert.throws(
      () => opened.submit(`more${n}`),
      (error: unknown) => error instanceof OrchdError && ['STORE_FAILED', 'FENCED'].includes(error.code),
    );
  }
  await fixture.turns(20);
  assert.equal(opened.durable, durable);
  await fixture.within(opened.store.close());
}

async function closesAfterFailure(fixture: StoreFixture): Promise<void> {
  const opened = await broken(fixture);
  await fixture.within(opened.store.close());
}

async function closesWhileFailing(fixture: StoreFixture): Promise<void> {
  const opened = await Opened.on(fixture);
  await fixture.breakWrites();
  opened.submit('a');
  await fixture.within(opened.store.close());
  assert.equal(opened.durable, 0);
}

async function closesAfterCheckpoint(fixture: StoreFixture): Promise<void> {
  const opened = await broken(fixture);
  const checkpoint = opened.store.checkpoint().catch(() => undefined);
  await fixture.within(opened.store.close());
  await fixture.within(checkpoint);
}
