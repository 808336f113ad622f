import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EngineKit, type Fields, START, SUCCESS } from '../../../test/fakes/engine-kit.ts';
import { GB, PoolKit } from '../../../test/fakes/pool-engine.ts';
import { explain } from './explain.ts';

const why = (kit: EngineKit, id: string): string | undefined => explain(kit.engine.state, kit.job(id))?.code;
const text = (kit: EngineKit, id: string): string => explain(kit.engine.state, kit.job(id))?.text ?? '';

function running(fields: Fields = {}): EngineKit {
  const kit = new EngineKit();
  kit.backend('b');
  kit.submit('a', fields);
  kit.accept('a');
  return kit;
}

test('a job without a fitting backend names what it needs', () => {
  const kit = new EngineKit();
  kit.backend('b', { types: ['other'] });
  kit.submit('a', { backend: 'gpu', model: 'm', labels: { site: 'x' } });
  assert.equal(why(kit, 'a'), 'no_backend');
  for (const part of ['"t"', '"gpu"', '"m"', 'site=x']) assert.ok(text(kit, 'a').includes(part), part);
});

test('every way of waiting has its reason', () => {
  const kit = running();
  kit.submit('next');
  kit.submit('later');
  kit.submit('timed', { not_before: START + 60_000 });
  kit.submit('first', { session_id: 's' });
  kit.submit('second', { session_id: 's' });
  assert.equal(why(kit, 'next'), 'backend_busy');
  assert.equal(why(kit, 'later'), 'behind');
  assert.equal(why(kit, 'timed'), 'not_before');
  assert.equal(why(kit, 'second'), 'session_busy');
  assert.match(text(kit, 'second'), /"first"/);
  kit.step({ type: 'reachable', name: 'b', up: false });
  assert.equal(why(kit, 'next'), 'backend_down');
  assert.match(text(kit, 'next'), /"b"/);
  kit.step({ type: 'reachable', name: 'b', up: true });
  kit.step({ type: 'space', full: true });
  assert.equal(why(kit, 'next'), 'disk_full');
});

test('a backend that gets no job for now is named, with the reason and the time', () => {
  const kit = new EngineKit();
  kit.backend('b');
  kit.submit('a');
  kit.offered('a', { is: 'busy', retryAfterMs: 5000, why: 'auth_required' });
  kit.killed('a', { is: 'tombstoned' });
  const until = new Date(START + 5000).toISOString();
  assert.equal(
    text(kit, 'a'),
    `next; the backend that can run it is busy: "b" until ${until} (auth_required)`,
  );
});

test('a claimed, stale or cancelled job has its reason; a running or ended one has none', () => {
  const kit = new EngineKit();
  kit.backend('b');
  kit.submit('a', { on_unknown: 'hold' });
  assert.equal(why(kit, 'a'), 'offer');
  kit.accept('a');
  assert.equal(why(kit, 'a'), undefined, 'it does not wait');
  kit.lose('a');
  assert.equal(why(kit, 'a'), 'unknown_outcome');
  kit.cancel('a');
  assert.equal(why(kit, 'a'), 'cancelling');
  kit.found('a', { is: 'ended', outcome: SUCCESS });
  assert.equal(why(kit, 'a'), undefined, 'it is over');
});

test('a job that waits for a worker names the step that is under way', () => {
  const kit = new PoolKit({ minResidentMs: 0, drainAfterMs: 0 });
  kit.pool('p', [24]);
  kit.model('m', { vramBytes: 16 * GB });
  kit.model('other', { vramBytes: 16 * GB });
  kit.ask('a', 'm');
  assert.deepEqual([why(kit, 'a'), text(kit, 'a')], ['worker_start', 'a worker with this model is starting']);
  kit.obey();
  kit.accept('a');
  kit.ask('next', 'm');
  assert.equal(why(kit, 'next'), 'backend_busy', 'its worker is there by now');
  kit.cancel('next');
  kit.ask('b', 'other');
  assert.deepEqual(
    [why(kit, 'b'), text(kit, 'b')],
    ['worker_start', 'a worker with another model makes room'],
  );
});
