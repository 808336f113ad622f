import assert from 'node:assert/strict';
import { test } from 'node:test';
import { STOPPED, SUCCESS } from '../../../test/fakes/engine-kit.ts';
import { PoolKit } from '../../../test/fakes/pool-engine.ts';
import { usedTokens } from '../../../test/fakes/used-tokens.ts';
import { OrchdError } from '../../model/errors.ts';
import { Restore } from '../restore.ts';

const DAY_MS = 86_400_000;

function kitWith(sessionTokenBudget?: number): PoolKit {
  const kit = new PoolKit({ sessionTokenBudget });
  kit.pool('p', [24]);
  kit.model('m');
  return kit;
}

const NOTHING_SET = { tokenBudget: undefined, backend: undefined, messages: undefined, metadata: undefined };

test('a session in use does not keep later sessions from expiring', () => {
  const kit = kitWith();
  const use = (id: string, session: string): void => {
    kit.ask(id, 'm', { session_id: session });
    kit.obey();
    kit.accept(id);
    const usage = usedTokens(1, 1, 1);
    kit.end(id, { ok: true, result: '1', usage });
  };
  use('a', 'first');
  use('b', 'second');
  kit.pass(20 * DAY_MS);
  use('c', 'first');
  kit.pass(20 * DAY_MS);
  assert.deepEqual(
    [...kit.engine.state.tables.session.values()].map(({ id }) => id),
    ['first'],
  );
});

test('after a restart an old session expires, even if the store returns it after a newer one', () => {
  const kit = kitWith();
  const restore = new Restore(kit.engine.state, kit.now);
  const session = (id: string, usedAt: number): void => {
    const record = { v: 2, tenant: 'default', id, createdAt: 0, usedAt, turns: 1, tokensUsed: 0 } as const;
    restore.record({ kind: 'session', id, after: { ...record, ...NOTHING_SET } });
  };
  session('fresh', kit.now);
  session('old', kit.now - 60 * DAY_MS);
  restore.finish({ seq: kit.engine.state.seq, at: kit.now, indexedUpTo: 0 });
  kit.step({ type: 'tick' });
  assert.deepEqual(
    [...kit.engine.state.sessions.values()].map(({ id }) => id),
    ['fresh'],
  );
});

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
