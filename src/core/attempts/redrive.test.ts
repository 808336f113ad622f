/** Redriven jobs that belong to a run: it has gone on without them, so that they would work for nobody, and unbounded. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EngineKit, FAILED, type Fields, SUCCESS, submission } from '../../../test/fakes/engine-kit.ts';

const TYPES = ['t', 'agent', 'tool', 'inference'];
const CALLS: Record<string, Fields> = {
  'r.1': { type: 'inference' },
  'r.2.0': { type: 'tool' },
  'r.2.1': { type: 'agent', agent: 'clerk' },
};

/** A run that waits for calls, of which one has failed for good. */
function failed(id: string, fields: Fields): EngineKit {
  const kit = new EngineKit();
  kit.backend('b', { slots: 9, types: TYPES });
  kit.submit('r', { type: 'agent', agent: 'boss' });
  kit.accept('r');
  const below = { max_tries: 1, hash: id, ...fields };
  const children = [submission(id, below), submission('r.9', { hash: 'r.9' })];
  kit.end('r', { ok: 'waits', state: '{}', children, needs: 'all' });
  kit.accept(id);
  kit.end(id, FAILED);
  assert.equal(kit.state(id), 'dead');
  return kit;
}

for (const [id, fields] of Object.entries(CALLS))
  test(`a call (${fields.type}) is not redriven when its run has gone on`, () => {
    const kit = failed(id, fields);
    kit.accept('r.9');
    kit.end('r.9', SUCCESS);
    kit.accept('r');
    assert.throws(() => kit.redrive(id), { code: 'ILLEGAL_STATE' });
    kit.end('r', SUCCESS);
    assert.throws(() => kit.redrive(id), { code: 'ILLEGAL_STATE' });
  });

test('calls of models and of agents are redriven while their run waits; a run of a caller below another one at any time', () => {
  for (const id of ['r.1', 'r.2.1']) {
    const kit = failed(id, CALLS[id] as Fields);
    kit.redrive(id);
    assert.equal(kit.state(id), 'claimed', id);
  }
  const kit = failed('own', { type: 'agent', agent: 'clerk' });
  kit.accept('r.9');
  kit.end('r.9', SUCCESS);
  kit.accept('r');
  kit.end('r', SUCCESS);
  kit.redrive('own');
  assert.equal(kit.state('own'), 'claimed');
});
