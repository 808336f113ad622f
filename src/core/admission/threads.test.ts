import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  EngineKit,
  FAILED,
  FAILED_FOR_NOW,
  SETTINGS,
  SUCCESS,
  TURNED_AWAY,
} from '../../../test/fakes/engine-kit.ts';
import { DEFAULT_TENANT } from '../../model/records.ts';
import type { SessionThread } from '../../model/session-record.ts';
import { MAX_THREADS } from './session.ts';

const threadOn = (backend: string, messages = 2) => ({ id: `${backend}/thread`, messages, hash: 'h' });

const threads = (kit: EngineKit): readonly SessionThread[] =>
  kit.engine.state.sessionOf(DEFAULT_TENANT, 's')?.threads ?? [];

const names = (kit: EngineKit): readonly string[] => threads(kit).map(({ backend }) => backend);

/** A conversation with a thread on a seat, and its next turn, which was claimed there. */
function begun(fields: object = {}): EngineKit {
  const kit = new EngineKit();
  kit.backend('a', { slots: 2, paid: true });
  kit.submit('s1', { session_id: 's' });
  kit.accept('s1');
  kit.pass(1000);
  kit.end('s1', { ok: true, result: '"said"', thread: threadOn('a') });
  kit.submit('s2', { session_id: 's', ...fields });
  assert.equal(kit.job('s2').job.backend, 'a');
  return kit;
}

describe('the thread of a session', () => {
  test('is the one that the answer names, with what it has heard', () => {
    const kit = begun();
    kit.accept('s2');
    kit.end('s2', { ok: true, result: '"said"', thread: { id: 'another', messages: 4, hash: 'i' } });
    assert.deepEqual(threads(kit), [{ backend: 'a', thread: 'another', heard: 4, hash: 'i' }]);
    kit.submit('s3', { session_id: 's' });
    kit.accept('s3');
    kit.end('s3', SUCCESS);
    assert.equal(threads(kit)[0]?.thread, undefined, 'an answer without a thread came from elsewhere');
  });

  test('stays if the attempt has certainly not run', () => {
    const ways: Record<string, (kit: EngineKit) => void> = {
      unsent: (kit) => kit.offered('s2', { is: 'unsent' }),
      busy: (kit) => {
        kit.offered('s2', { is: 'busy' });
        kit.killed('s2', { is: 'tombstoned' });
      },
      absent: (kit) => {
        kit.lose('s2');
        kit.found('s2', { is: 'absent' });
        kit.killed('s2', { is: 'tombstoned' });
      },
      'turned away': (kit) => {
        kit.accept('s2');
        kit.end('s2', TURNED_AWAY);
      },
    };
    for (const [name, go] of Object.entries(ways)) {
      const kit = begun();
      go(kit);
      assert.notEqual(kit.job('s2').open?.n, 1, name);
      assert.deepEqual(names(kit), ['a'], name);
    }
  });

  test('is not used again once a turn may have been heard in part', () => {
    const ways: Record<string, (kit: EngineKit) => void> = {
      failed: (kit) => kit.end('s2', FAILED),
      'failed for now': (kit) => kit.end('s2', FAILED_FOR_NOW),
      cancelled: (kit) => {
        kit.cancel('s2');
        kit.killed('s2', { is: 'ended', outcome: { ok: 'cancelled' } });
      },
      'a cancel that nobody confirms': (kit) => {
        kit.cancel('s2');
        kit.pass(SETTINGS.cancelDeadlineMs);
        assert.ok(kit.job('s2').open);
      },
      'a timeout that nobody confirms': (kit) => {
        kit.pass(500 + SETTINGS.cancelDeadlineMs);
        assert.ok(kit.job('s2').open);
      },
      forgotten: (kit) => kit.found('s2', { is: 'forgotten' }),
      'another body under its token': (kit) => kit.found('s2', { is: 'conflict' }),
    };
    for (const [name, go] of Object.entries(ways)) {
      const kit = begun({ timeout_ms: 500, on_unknown: 'fail' });
      kit.accept('s2');
      go(kit);
      assert.deepEqual(names(kit), [], name);
    }
  });

  test('is kept for the last backends only', () => {
    const kit = new EngineKit();
    const seats = Array.from({ length: MAX_THREADS + 1 }, (_, n) => `seat-${n}`);
    for (const [n, seat] of seats.entries()) {
      kit.backend(seat);
      kit.submit(`s${n}`, { session_id: 's' });
      kit.accept(`s${n}`);
      kit.end(`s${n}`, { ok: true, result: '"said"', thread: threadOn(seat) });
      kit.engine.queue.fleet.remove(seat);
    }
    assert.deepEqual(names(kit), seats.slice(1));
  });
});
