import assert from 'node:assert/strict';
import { test } from 'node:test';
import { backendInfo, EngineKit } from '../../../test/fakes/engine-kit.ts';

const FOREIGN = { backend: 'b', what: 'it obeys another copy', isForeign: true };

function opened(): EngineKit {
  const kit = new EngineKit();
  kit.step({ type: 'open', owner: 'x' });
  return kit;
}

test('a backend that knows another copy of the store gets no work, by whatever it is heard of', () => {
  const kit = opened();
  kit.backend('b');
  kit.step({ type: 'disagreement', found: FOREIGN });
  kit.submit('a');
  assert.equal(kit.state('a'), 'queued');
  kit.step({ type: 'reachable', name: 'b', up: true });
  assert.equal(kit.state('a'), 'queued', 'it answers');
  kit.step({ type: 'backend', info: backendInfo('b') });
  assert.equal(kit.state('a'), 'queued', 'it is registered again, as after a restart');
  kit.step({ type: 'open', owner: 'y', isCopy: true });
  kit.step({ type: 'backend', info: backendInfo('b') });
  assert.equal(kit.state('a'), 'claimed', 'the store is a copy, with an owner of its own');
});

test('a backend that has only run another body under a token goes on', () => {
  const kit = opened();
  kit.backend('b');
  kit.step({ type: 'disagreement', found: { ...FOREIGN, isForeign: false } });
  kit.submit('a');
  assert.equal(kit.state('a'), 'claimed');
});
