/** Which sessions leave memory for the archive, and what they are when they come back. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { EngineKit, SUCCESS, submission } from '../../../test/fakes/engine-kit.ts';
import { usedTokens } from '../../../test/fakes/used-tokens.ts';
import { OrchdError } from '../../model/errors.ts';
import { DEFAULT_TENANT, scoped } from '../../model/records.ts';
import type { SessionRecord } from '../../model/session-record.ts';
import type { SessionLookup } from '../ports/new-job.ts';
import { Restore } from '../restore.ts';
import { IdleSessions, MAX_SESSIONS } from './session-archive.ts';

const DAY_MS = 86_400_000;

const record = (id: string, more: Partial<SessionRecord> = {}): SessionRecord => ({
  v: 3,
  tenant: DEFAULT_TENANT,
  id,
  createdAt: 0,
  usedAt: 0,
  turns: 1,
  tokensUsed: 7,
  tokenBudget: undefined,
  threads: undefined,
  messages: undefined,
  metadata: undefined,
  ...more,
});

function kitWith(...sessions: readonly SessionRecord[]): EngineKit {
  const kit = new EngineKit();
  kit.now = 100 * DAY_MS;
  kit.backend('b', { slots: 10 });
  const restore = new Restore(kit.engine.state, kit.now);
  for (const session of sessions)
    restore.record({ kind: 'session', id: scoped(session.tenant, session.id), after: session });
  restore.finish({ seq: kit.engine.state.seq, at: kit.now, indexedUpTo: 0 });
  return kit;
}

const idsOf = (records: Iterable<SessionRecord>): string[] => Array.from(records, ({ id }) => id);

const idle = (kit: EngineKit, limit = 100, looks = 1000): SessionRecord[] =>
  new IdleSessions(kit.engine.state).take(kit.now - DAY_MS, limit, looks);

/** Takes the idle sessions out of memory; returns their records as the archive has them. */
function archive(kit: EngineKit): SessionRecord[] {
  const records = idle(kit);
  kit.step({ type: 'archive-sessions', records });
  return records;
}

const lookup = (kit: EngineKit, archived?: SessionRecord): SessionLookup => ({
  left: kit.engine.state.sessions.left,
  archived,
});

const sessionOf = (kit: EngineKit, id: string): SessionRecord | undefined =>
  kit.engine.state.sessionOf(DEFAULT_TENANT, id);

describe('sessions leave memory', () => {
  test('that were idle for the whole time, the least recently used first, whatever the store returned first', () => {
    const kit = kitWith(
      record('fresh', { usedAt: 1e13 }),
      record('b', { usedAt: 2 }),
      record('a', { usedAt: 1 }),
    );
    assert.deepEqual(idsOf(idle(kit)), ['a', 'b']);
    assert.deepEqual(idsOf(idle(kit, 1)), ['a']);
    archive(kit);
    assert.deepEqual(idsOf(kit.engine.state.sessions.values()), ['fresh']);
    assert.deepEqual(
      kit.log.flatMap(({ change }) =>
        change.kind === 'session' ? [[change.id, change.after, change.cause]] : [],
      ),
      [
        ['default~a', null, 'archived'],
        ['default~b', null, 'archived'],
      ],
    );
  });

  test('unless a job of theirs has not ended, or an attempt of one that has', () => {
    const kit = kitWith(record('running'), record('held'), record('idle'));
    kit.submit('r', { session_id: 'running' });
    kit.submit('h', { session_id: 'held', parallel: true });
    kit.accept('r');
    kit.accept('h');
    kit.now += 2 * DAY_MS;
    kit.step({ type: 'cancel', uid: 'h', by: 'test' });
    kit.pass(60_000);
    assert.ok(kit.engine.state.open.size > 0);
    assert.deepEqual(idsOf(idle(kit)), ['idle']);
    const busy = ['running', 'held'].map((id) => sessionOf(kit, id) as SessionRecord);
    kit.step({ type: 'archive-sessions', records: busy });
    assert.ok(sessionOf(kit, 'running') && sessionOf(kit, 'held'));
  });

  test('only as the archive has them: one that has changed since stays', () => {
    const kit = kitWith(record('limited'), record('used'));
    const records = idle(kit);
    kit.step({ type: 'budget', tenant: DEFAULT_TENANT, id: 'limited', tokenBudget: 5 });
    kit.submit('j', { session_id: 'used' });
    kit.accept('j');
    kit.end('j', { ok: true, result: '1', usage: usedTokens(1, 1, 1) });
    kit.step({ type: 'archive-sessions', records });
    assert.equal(sessionOf(kit, 'limited')?.tokenBudget, 5);
    assert.equal(sessionOf(kit, 'used')?.turns, 2);
  });

  test('past sessions whose jobs go on for days, without a look at all of them at once', () => {
    const busy = Array.from({ length: 50 }, (_, n) => record(`busy${n}`, { usedAt: n }));
    const kit = kitWith(...busy, record('idle', { usedAt: 100 }));
    for (const { id } of busy) kit.submit(`j-${id}`, { session_id: id });
    const sessions = new IdleSessions(kit.engine.state);
    const found: string[] = [];
    for (let call = 0; call < 10; call++) {
      const taken = sessions.take(kit.now, 10, 20);
      found.push(...idsOf(taken));
      kit.step({ type: 'archive-sessions', records: taken });
    }
    assert.deepEqual(found, ['idle']);
  });

  test('before their time where there are too many: of the tenant that has the most, and no more than that', () => {
    const kit = kitWith();
    const add = (session: SessionRecord): void =>
      kit.engine.state.keep({ kind: 'session', id: scoped(session.tenant, session.id), after: session });
    add(record('one', { tenant: 'quiet', usedAt: kit.now }));
    for (let n = 0; n < MAX_SESSIONS; n++)
      add(record(`s${n}`, { tenant: 'loud', usedAt: kit.now, tokenBudget: 100 }));
    kit.submit('j', { tenant: 'loud', session_id: 's0' });
    assert.deepEqual(idsOf(idle(kit)), ['s1'], 's0 has a live job');
    archive(kit);
    assert.deepEqual(idle(kit), []);
    assert.equal(kit.engine.state.sessions.size, MAX_SESSIONS);
  });

  test('a new session is refused while far too many are in memory; those that are there go on', () => {
    const kit = kitWith();
    for (let n = 0; n < 2 * MAX_SESSIONS; n++) {
      const session = record(`s${n}`, { usedAt: kit.now });
      kit.engine.state.keep({ kind: 'session', id: scoped(DEFAULT_TENANT, session.id), after: session });
    }
    const refused = kit.trySubmit('j', { session_id: 'one-more' });
    assert.equal(refused instanceof OrchdError && refused.details.reason, 'too_many_sessions');
    const set = (id: string): unknown =>
      kit.step({ type: 'budget', tenant: DEFAULT_TENANT, id, tokenBudget: 5 }).reply;
    assert.ok(set('another') instanceof OrchdError);
    assert.ok(!(set('s1') instanceof OrchdError));
    assert.ok(!(kit.trySubmit('k', { session_id: 's2' }) instanceof OrchdError));
  });
});

describe('an archived session', () => {
  const limited = record('s', {
    tokenBudget: 100,
    tokensUsed: 95,
    turns: 9,
    threads: [{ backend: 'b', thread: 't', heard: 2, hash: 'h' }],
    createdAt: 5,
  });

  test('comes back with the next job, as it was but for its last use, in the commit of the admission', () => {
    const kit = kitWith(limited);
    const [archived] = archive(kit);
    const step = kit.step({
      type: 'submit',
      submissions: [{ ...submissionOf('j'), session: lookup(kit, archived) }],
    });
    assert.deepEqual(sessionOf(kit, 's'), { ...limited, usedAt: kit.now });
    const causes = step.changes.flatMap(({ kind, cause }) =>
      kind === 'session' || kind === 'ask' ? [cause] : [],
    );
    assert.deepEqual(causes, ['restored', 'submit']);
  });

  test('has what it has spent of its budget: a job over it is refused, and changes nothing', () => {
    const kit = kitWith(limited);
    const [archived] = archive(kit);
    const refused = kit.trySubmit('j', { session_id: 's', tokens: 10, session: lookup(kit, archived) });
    assert.equal(refused instanceof OrchdError && refused.details.reason, 'token_budget');
    assert.equal(sessionOf(kit, 's'), undefined);
    assert.ok(
      !(
        kit.trySubmit('k', { session_id: 's', tokens: 5, session: lookup(kit, archived) }) instanceof
        OrchdError
      ),
    );
  });

  test('is looked for again where sessions have left memory since the look', () => {
    const kit = kitWith(limited, record('other'));
    const before = lookup(kit);
    const [archived] = archive(kit);
    const early = kit.trySubmit('j', { session_id: 's', session: before });
    assert.equal(early instanceof OrchdError && early.code, 'STORE_BUSY', 'it was in memory then');
    const found = lookup(kit, archived);
    kit.step({ type: 'forget-session', tenant: DEFAULT_TENANT, id: 's', by: 'test', lookup: found });
    const late = kit.trySubmit('j', { session_id: 's', session: found });
    assert.equal(late instanceof OrchdError && late.code, 'STORE_BUSY', 'it was deleted meanwhile');
    assert.equal(sessionOf(kit, 's'), undefined);
    kit.submit('j', { session_id: 's', session: lookup(kit) });
    assert.equal(sessionOf(kit, 's')?.tokensUsed, 0, 'a session that was deleted begins anew');
  });

  describe('that a job below another one names', () => {
    /** A job in a session of its own that waits for a job in session `s`. */
    function waitFor(kit: EngineKit, session: SessionLookup): void {
      const child = submission('c', { session_id: 's', session });
      kit.end('run', { ok: 'waits', state: '1', children: [child], needs: 'all' });
    }

    function running(...sessions: readonly SessionRecord[]): EngineKit {
      const kit = kitWith(...sessions);
      kit.submit('run', { session_id: 'own' });
      kit.accept('run');
      return kit;
    }

    const refusalOf = (kit: EngineKit): string | undefined =>
      kit.job('run').job.wait?.refused?.[0]?.error.code;

    test('comes back as it was, also if other sessions have left memory since the look', () => {
      const kit = running(limited, record('other'));
      const [archived] = archive(kit).filter(({ id }) => id === 's');
      const found = lookup(kit, archived);
      kit.step({ type: 'expire-archived', sessions: [{ tenant: DEFAULT_TENANT, id: 'other' }] });
      waitFor(kit, found);
      assert.equal(refusalOf(kit), undefined);
      assert.equal(sessionOf(kit, 's')?.tokenBudget, limited.tokenBudget);
    });

    test('does not come back if it was deleted since the look, and is not begun anew if it was archived since', () => {
      const kit = running(limited);
      const before = lookup(kit);
      const [archived] = archive(kit);
      waitFor(kit, before);
      assert.deepEqual([refusalOf(kit), sessionOf(kit, 's')], ['STORE_BUSY', undefined]);
      const other = running(limited);
      archive(other);
      const found = lookup(other, archived);
      other.step({ type: 'forget-session', tenant: DEFAULT_TENANT, id: 's', by: 'test', lookup: found });
      waitFor(other, found);
      assert.deepEqual([refusalOf(other), sessionOf(other, 's')], ['STORE_BUSY', undefined]);
    });

    test('is not taken for unchanged after more sessions have left than are remembered', () => {
      const kit = running(limited);
      const [archived] = archive(kit);
      const found = lookup(kit, archived);
      const gone = (id: string) => ({ tenant: DEFAULT_TENANT, id });
      kit.step({ type: 'forget-session', ...gone('s'), by: 'test', lookup: found });
      const many = Array.from({ length: 10_001 }, (_, n) => gone(`other${n}`));
      kit.step({ type: 'expire-archived', sessions: many });
      waitFor(kit, found);
      assert.deepEqual([refusalOf(kit), sessionOf(kit, 's')], ['STORE_BUSY', undefined]);
    });
  });

  test('that is in memory as well counts as it is in memory', () => {
    const kit = kitWith(record('s', { turns: 12, usedAt: kitWith().now }));
    kit.submit('j', { session_id: 's', session: lookup(kit, limited) });
    assert.equal(sessionOf(kit, 's')?.turns, 12);
  });

  test('gets another budget, and keeps what it has used', () => {
    const kit = kitWith(limited);
    const [archived] = archive(kit);
    kit.step({
      type: 'budget',
      tenant: DEFAULT_TENANT,
      id: 's',
      tokenBudget: 200,
      lookup: lookup(kit, archived),
    });
    assert.deepEqual(sessionOf(kit, 's'), { ...limited, tokenBudget: 200, usedAt: kit.now });
  });

  test('is deleted with a change that the log keeps; its budget stays if the caller may not remove it', () => {
    const forget = (keepsBudget: boolean) => {
      const kit = kitWith(limited);
      const [archived] = archive(kit);
      const event = { type: 'forget-session', tenant: DEFAULT_TENANT, id: 's', by: 'test' } as const;
      const { changes } = kit.step({ ...event, keepsBudget, lookup: lookup(kit, archived) });
      const unknown = kit.step({ ...event, id: 'unknown', lookup: lookup(kit) }).reply;
      assert.equal(unknown instanceof OrchdError && unknown.code, 'NOT_FOUND');
      return { kit, changes };
    };
    assert.deepEqual(
      forget(false).changes.map(({ kind, id, after }) => [kind, id, after === null]),
      [
        ['erasure', 'default~s', false],
        ['session', 'default~s', true],
      ],
    );
    const kept = sessionOf(forget(true).kit, 's');
    assert.deepEqual([kept?.tokenBudget, kept?.tokensUsed, kept?.turns], [100, 95, 0]);
  });

  test('counts the tokens of a job that is redriven after the session has left memory', () => {
    const kit = kitWith(limited);
    kit.submit('j', { session_id: 's', max_tries: 1 });
    kit.accept('j');
    kit.end('j', { ok: false, error: { code: 'EXECUTION_FAILED', message: 'no', retriable: false } });
    kit.now += 2 * DAY_MS;
    const [archived] = archive(kit);
    assert.ok(archived && sessionOf(kit, 's') === undefined);
    kit.step({ type: 'redrive', uid: 'j', by: 'test', known: undefined, lookup: lookup(kit, archived) });
    assert.equal(sessionOf(kit, 's')?.tokensUsed, archived.tokensUsed);
  });

  test('whose retention is over is forgotten with what it has spent, unless it is in use', () => {
    const kit = kitWith(record('used'));
    const sessions = ['used', 'gone'].map((id) => ({ tenant: DEFAULT_TENANT, id }));
    const { changes } = kit.step({ type: 'expire-archived', sessions });
    assert.deepEqual(changes, [{ kind: 'session', id: 'default~gone', after: null, cause: 'expired' }]);
  });
});

test('what a session has spent of a limit is not forgotten while it is archived', () => {
  const kit = new EngineKit({
    limits: [{ scope: 'session:*', costBudget: 10, hard: true, requestsPerSec: 0.000001, burstRequests: 2 }],
  });
  kit.backend('b');
  for (const id of ['a', 'b']) {
    kit.submit(id, { session_id: 's' });
    kit.accept(id);
    kit.end(id, SUCCESS);
  }
  kit.now += 2 * DAY_MS;
  const [archived] = archive(kit);
  assert.ok(archived);
  kit.submit('c', { session_id: 'other', session: lookup(kit) });
  const refused = kit.trySubmit('d', { session_id: 's', session: lookup(kit, archived) });
  assert.equal(refused instanceof OrchdError && refused.code, 'RATE_LIMITED');
});

function submissionOf(id: string) {
  return submission(id, { session_id: 's' });
}
