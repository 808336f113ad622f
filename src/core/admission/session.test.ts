import assert from 'node:assert/strict';
import { test } from 'node:test';
import { STOPPED, SUCCESS } from '../../../test/fakes/engine-kit.ts';
import { PoolKit } from '../../../test/fakes/pool-engine.ts';
import { OrchdError } from '../../model/errors.ts';

function kitWith(sessionTokenBudget?: number): PoolKit {
  const kit = new PoolKit({ sessionTokenBudget });
  kit.pool('p', [24]);
  kit.model('m');
  return kit;
}

test('every successful try of a session is a turn, even without reported tokens', () => {
  const kit = kitWith();
  for (const id of ['a', 'b', 'c']) {
    kit.ask(id, 'm', { session_id: 's' });
    kit.obey();
    kit.accept(id);
    kit.end(id, SUCCESS);
  }
  assert.equal(kit.engine.state.sessionOf('default', 's')?.turns, 3);
});

test('a cancelled try is charged its estimate, so that cancels cannot evade a budget', () => {
  const kit = kitWith(100);
  kit.ask('a', 'm', { session_id: 's', tokens: 90 });
  kit.cancel('a');
  assert.equal(kit.engine.state.sessionOf('default', 's')?.tokensUsed, 0, 'the job had not started');
  kit.ask('b', 'm', { session_id: 's', tokens: 90 });
  kit.obey();
  kit.accept('b');
  kit.cancel('b');
  kit.end('b', STOPPED);
  assert.equal(kit.engine.state.sessionOf('default', 's')?.tokensUsed, 90);
  const refused = kit.trySubmit('c', { type: 'inference', model: 'm', session_id: 's', tokens: 90 });
  assert.ok(refused instanceof OrchdError && refused.details.reason === 'token_budget');
});
