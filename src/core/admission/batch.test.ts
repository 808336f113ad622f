import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EngineKit, FAILED, STOPPED, SUCCESS } from '../../../test/fakes/engine-kit.ts';
import { MAX_BATCHES } from './batch.ts';

const endedOf = (kit: EngineKit, id = 'b', tenant = 'default') =>
  kit.engine.state.batches.of(tenant, id)?.ended;

test('the ends of all jobs of a turn are counted in one change, in the commit that ends them', () => {
  const kit = new EngineKit();
  kit.backend('x', { slots: 3 });
  for (const id of ['a', 'b', 'c']) kit.submit(id, { batch: 'b' });
  kit.cancel('c');
  const tokens = ['a', 'b', 'c'].map((id) => kit.token(id));
  const outcomes = [SUCCESS, FAILED, STOPPED];
  const { changes } = kit.engine.steps(
    tokens.map((token, at) => ({ type: 'outcome', token, outcome: outcomes[at]! })),
    kit.now,
  );
  const counted = changes.filter(({ kind }) => kind === 'batch');
  assert.equal(counted.length, 1);
  assert.deepEqual(endedOf(kit), { succeeded: 1, dead: 1, cancelled: 1 });
});

test('a redrive takes the job out of the dead ones, and its next end counts again', () => {
  const kit = new EngineKit();
  kit.backend('x');
  kit.submit('a', { batch: 'b' });
  kit.end('a', FAILED);
  kit.redrive('a');
  assert.deepEqual(endedOf(kit), { succeeded: 0, dead: 0, cancelled: 0 });
  kit.end('a', SUCCESS);
  assert.deepEqual(endedOf(kit), { succeeded: 1, dead: 0, cancelled: 0 });
});

test('batches of the same id of two tenants are two batches', () => {
  const kit = new EngineKit();
  kit.backend('x', { slots: 2 });
  kit.submit('a', { batch: 'b' });
  kit.submit('a', { batch: 'b', tenant: 'lab' });
  kit.end('lab~a', FAILED);
  assert.equal(endedOf(kit)?.dead, 0);
  assert.equal(endedOf(kit, 'b', 'lab')?.dead, 1);
  assert.equal(kit.engine.state.batches.isLive('lab', 'b'), false);
  assert.equal(kit.engine.state.batches.isLive('default', 'b'), true);
});

test('a purge deletes batches whose last job ended before it, and no live one', () => {
  const kit = new EngineKit();
  kit.backend('x', { slots: 2 });
  kit.submit('old', { batch: 'ended' });
  kit.submit('live', { batch: 'live' });
  kit.end('old', SUCCESS);
  const endedAt = kit.now;
  kit.step({ type: 'purge', attemptFloor: 0, endedBefore: endedAt });
  assert.ok(endedOf(kit, 'ended'));
  kit.pass(1000);
  kit.step({ type: 'purge', attemptFloor: 0, endedBefore: endedAt + 1 });
  assert.equal(endedOf(kit, 'ended'), undefined);
  assert.ok(endedOf(kit, 'live'));
});

test('of too many batches, one of the tenant that has the most gives way, and none with a live job', () => {
  const kit = new EngineKit({ queueCapacity: 10 });
  const put = (tenant: string, id: string) => kit.step({ type: 'batch', request: { tenant, id } });
  put('lab', 'first');
  kit.submit('live', { batch: 'live' });
  const other = kit.engine.state.batches.of('lab', 'first')!;
  for (let n = 0; n < MAX_BATCHES - 2; n++)
    kit.engine.state.batches.set(`default~b${n}`, { ...other, tenant: 'default', id: `b${n}` });
  put('default', 'new');
  const { batches } = kit.engine.state;
  assert.deepEqual(
    [
      batches.size,
      batches.of('default', 'b0'),
      batches.of('lab', 'first')?.id,
      batches.of('default', 'live')?.id,
    ],
    [MAX_BATCHES, undefined, 'first', 'live'],
  );
});
