import assert from 'node:assert/strict';
import { test } from 'node:test';
import { STOPPED, SUCCESS } from '../../../test/fakes/engine-kit.ts';
import { PoolKit } from '../../../test/fakes/pool-engine.ts';
import { OrchdError } from '../../model/errors.ts';
import { Restore } from '../restore.ts';

const DAY_MS = 86_400_000;

function kitWith(sessionTokenBudget?: number): PoolKit {
  const kit = new PoolKit({ sessionTokenBudget });
  kit.pool('p', [24]);
  kit.model('m');
  return kit;
}

test('a session that is in use does not keep those from expiring that came after it', () => {
  const kit = kitWith();
  const use = (id: string, session: string): void => {
    kit.ask(id, 'm', { session_id: session });
    kit.obey();
    kit.accept(id);
    const usage = { prompt: 1, completion: 1, decodeMs: 1 };
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

test('after a restart those that were unused for longest are first, however the store kept them', () => {
  const kit = kitWith();
  const restore = new Restore(kit.engine.state, kit.now);
  const session = (id: string, usedAt: number): void => {
    const record = { v: 1, tenant: 'default', id, createdAt: 0, usedAt, turns: 1, tokensUsed: 0 } as const;
    restore.record({ kind: 'session', id, after: { ...record, tokenBudget: undefined, backend: undefined } });
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

test('every try of its jobs is a turn, also where nothing was counted', () => {
  const kit = kitWith();
  for (const id of ['a', 'b', 'c']) {
    kit.ask(id, 'm', { session_id: 's' });
    kit.obey();
    kit.accept(id);
    kit.end(id, SUCCESS);
  }
  assert.equal(kit.engine.state.sessionOf('default', 's')?.turns, 3);
});

test('whoever leaves before the end is charged what was estimated: a budget cannot be got round so', () => {
  const kit = kitWith(100);
  kit.ask('a', 'm', { session_id: 's', tokens: 90 });
  kit.cancel('a');
  assert.equal(kit.engine.state.sessionOf('default', 's')?.tokensUsed, 0, 'it had not begun');
  kit.ask('b', 'm', { session_id: 's', tokens: 90 });
  kit.obey();
  kit.accept('b');
  kit.cancel('b');
  kit.end('b', STOPPED);
  assert.equal(kit.engine.state.sessionOf('default', 's')?.tokensUsed, 90);
  const refused = kit.trySubmit('c', { type: 'inference', model: 'm', session_id: 's', tokens: 90 });
  assert.ok(refused instanceof OrchdError && refused.details.reason === 'token_budget');
});
