import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  backendInfo,
  EngineKit,
  FAILED,
  type Fields,
  SETTINGS,
  SUCCESS,
  TURNED_AWAY,
} from '../../../test/fakes/engine-kit.ts';
import { causeText } from '../../model/causes.ts';
import type { TurnedAway } from '../ports/backend.ts';
import type { EngineSettings } from '../settings.ts';
import { explain } from './explain.ts';

const SERVICE_MS = 1000;
/** The price of moving, with the settings of the kit. */
const PRICE_MS = 10 * SERVICE_MS;

const threadOn = (backend: string) => ({ id: `${backend}/thread`, messages: 2, hash: 'h' });

/** A turn that is asked, runs for a second and is answered on a thread of its seat. */
function say(kit: EngineKit, id: string, session_id: string, fields: Fields = {}): string {
  kit.submit(id, { session_id, ...fields });
  const seat = kit.job(id).job.backend as string;
  kit.accept(id);
  kit.pass(SERVICE_MS);
  kit.end(id, { ok: true, result: '"said"', thread: threadOn(seat) });
  return seat;
}

/** Two seats, a conversation on the first one, which another job has taken since, and its next turn. */
function waiting(settings: Partial<EngineSettings> = {}, fields: Fields = {}): EngineKit {
  const kit = new EngineKit(settings);
  kit.backend('a');
  assert.equal(say(kit, 's1', 's'), 'a');
  kit.submit('other');
  kit.accept('other');
  kit.backend('b');
  kit.submit('s2', { session_id: 's', ...fields });
  return kit;
}

const why = (kit: EngineKit, id: string): string => {
  const { state, queue } = kit.engine;
  return explain(state, kit.job(id), queue.sticky.of(kit.job(id)))?.code ?? kit.state(id);
};

const seatOf = (kit: EngineKit, id: string): string | undefined => kit.job(id).job.backend;

const cause = (kit: EngineKit, id: string): string | undefined => {
  const last = kit.log.findLast(({ change }) => change.kind === 'job' && change.id === id);
  return last && causeText(last.change.cause);
};

describe('[FANO-7] a turn whose seat is busy', () => {
  test('waits for it, says so, and is the next one there', () => {
    const kit = waiting();
    assert.equal(why(kit, 's2'), 'sticky');
    assert.equal(kit.job('s2').parked, 'sticky');
    kit.submit('new');
    assert.equal(seatOf(kit, 'new'), 'b', 'the free seat is for others');
    kit.submit('later');
    kit.end('other', SUCCESS);
    assert.deepEqual([seatOf(kit, 's2'), why(kit, 'later')], ['a', 'backend_busy']);
    assert.match(cause(kit, 's2') ?? '', /sticky.*context/);
  });

  for (const price of [2, 10])
    test(`goes anywhere when waiting has cost as much as moving, with a price of ${price}`, () => {
      const kit = waiting({ sticky: { enabled: true, price } });
      kit.pass(price * SERVICE_MS - 1);
      assert.equal(why(kit, 's2'), 'sticky');
      kit.pass(1);
      assert.equal(seatOf(kit, 's2'), 'b');
      assert.match(cause(kit, 's2') ?? '', /moved/);
    });

  test('goes anywhere at once if that many wait there that it would take longer', () => {
    const kit = new EngineKit();
    kit.backend('a');
    for (let n = 0; n < 12; n++) say(kit, `c${n}`, `c${n}`);
    kit.submit('other');
    kit.accept('other');
    kit.backend('b');
    for (let n = 0; n < 12; n++) kit.submit(`d${n}`, { session_id: `c${n}` });
    const sticky = Array.from({ length: 12 }, (_, n) => why(kit, `d${n}`)).filter(
      (code) => code === 'sticky',
    );
    assert.ok(sticky.length >= 9 && sticky.length <= 10, `${sticky.length} wait`);
    assert.equal(seatOf(kit, `d${sticky.length}`), 'b');
  });

  test('goes anywhere at once when its seat begins to rest for longer than that', () => {
    for (const [restMs, seat] of [
      [PRICE_MS, undefined],
      [PRICE_MS + 1, 'b'],
    ] as const) {
      const kit = waiting();
      kit.engine.queue.fleet.block('a', kit.now + restMs);
      kit.step({ type: 'tick' });
      assert.equal(seatOf(kit, 's2'), seat, `${restMs} ms`);
    }
    const resting = waiting();
    resting.cancel('s2');
    resting.engine.queue.fleet.block('a', resting.now + PRICE_MS + 1);
    resting.submit('s3', { session_id: 's' });
    assert.equal(seatOf(resting, 's3'), 'b', 'a later turn does not begin to wait');
  });

  test('does not wait without a thread there, without a price, and without the preference', () => {
    const kit = new EngineKit();
    kit.backend('a');
    kit.submit('s1', { session_id: 's' });
    kit.accept('s1');
    kit.end('s1', SUCCESS);
    kit.submit('other');
    kit.backend('b');
    kit.submit('s2', { session_id: 's' });
    assert.equal(seatOf(kit, 's2'), 'b');
    for (const sticky of [
      { enabled: true, price: 0 },
      { enabled: false, price: 10 },
    ])
      assert.equal(seatOf(waiting({ sticky }), 's2'), 'b');
  });

  test('its time does not begin anew when it comes back', () => {
    const kit = waiting();
    for (let n = 0; n < 9; n++) {
      kit.pass(SERVICE_MS);
      kit.step({ type: 'pause-job', uid: 's2', by: 'test' });
      kit.step({ type: 'resume-job', uid: 's2', by: 'test' });
      assert.equal(why(kit, 's2'), 'sticky');
    }
    kit.pass(SERVICE_MS);
    assert.equal(seatOf(kit, 's2'), 'b');
  });

  test('does not begin to wait anew when the seat turns it away, however often', () => {
    const kit = waiting();
    kit.end('other', SUCCESS);
    let rounds = 0;
    for (; seatOf(kit, 's2') === 'a' && rounds < 40; rounds++) {
      kit.accept('s2');
      kit.end('s2', { ...(TURNED_AWAY as TurnedAway), retryAfterMs: SERVICE_MS });
      if (kit.state('s2') === 'queued') assert.equal(why(kit, 's2'), 'sticky');
      kit.pass(SERVICE_MS);
    }
    assert.deepEqual([seatOf(kit, 's2'), rounds > 5 && rounds <= 11], ['b', true], `after ${rounds} rounds`);
  });

  test('does not wait if it runs beside the other turns, which go on in the thread', () => {
    assert.equal(seatOf(waiting({}, { parallel: true }), 's2'), 'b');
  });

  test('finds its seat when all seats come back at once, whichever is the first', () => {
    const kit = new EngineKit();
    for (const name of ['a', 'b', 'c']) kit.backend(name);
    const seat = say(kit, 's1', 's');
    const news = (names: readonly string[], outage: string | undefined): void =>
      void kit.engine.steps(
        names.map((name) => ({ type: 'backend', info: backendInfo(name, { outage }) })),
        kit.now,
      );
    for (const first of ['a', 'b', 'c']) {
      const names = [first, ...['a', 'b', 'c'].filter((name) => name !== first)];
      news(names, 'away');
      kit.submit(`s-${first}`, { session_id: 's' });
      news(names, undefined);
      assert.equal(seatOf(kit, `s-${first}`), seat);
      kit.accept(`s-${first}`);
      kit.end(`s-${first}`, { ok: true, result: '"said"', thread: threadOn(seat) });
    }
  });

  test('is not lost with the seat: it goes anywhere when the seat goes away', () => {
    const away: Record<string, (kit: EngineKit) => void> = {
      down: (kit) => kit.engine.queue.fleet.setUp('a', false),
      closed: (kit) => kit.engine.queue.fleet.setClosed('a', true),
      paused: (kit) => kit.engine.queue.fleet.setPaused('a', true),
      'with an outage': (kit) => kit.backend('a', { outage: 'gone' }),
      removed: (kit) => kit.engine.queue.fleet.remove('a'),
      'removed and back': (kit) => {
        kit.engine.queue.fleet.remove('a');
        kit.backend('a');
      },
    };
    for (const [name, go] of Object.entries(away)) {
      const kit = waiting();
      go(kit);
      kit.step({ type: 'tick' });
      assert.equal(kit.engine.queue.sticky.size, name === 'removed and back' ? 1 : 0, name);
      if (name !== 'removed and back') assert.equal(seatOf(kit, 's2'), 'b', name);
    }
  });

  test('waits no longer when its seat declares that it cannot run it any more', () => {
    const kit = waiting();
    kit.backend('a', { labels: { still: 'fits' } });
    assert.equal(why(kit, 's2'), 'sticky');
    kit.backend('a', { types: ['else'] });
    assert.equal(seatOf(kit, 's2'), 'b');
  });

  test('does not wait for a seat that cannot run it', () => {
    const kit = new EngineKit();
    kit.backend('a', { models: ['one'] });
    say(kit, 's1', 's', { model: 'one' });
    kit.submit('other', { model: 'one' });
    kit.backend('b', { models: ['two'] });
    kit.submit('s2', { session_id: 's', model: 'two' });
    assert.equal(seatOf(kit, 's2'), 'b');
  });

  test('waits as long as before when brain time is stepped', () => {
    const kit = waiting();
    kit.pass(SERVICE_MS);
    kit.step({ type: 'clock-step', byMs: 86_400_000 });
    kit.now += 86_400_000;
    kit.pass(8 * SERVICE_MS);
    assert.equal(why(kit, 's2'), 'sticky');
    kit.pass(SERVICE_MS);
    assert.equal(seatOf(kit, 's2'), 'b');
  });

  test('waits no longer when it is cancelled', () => {
    const kit = waiting();
    kit.cancel('s2');
    assert.equal(kit.engine.queue.sticky.size, 0);
    kit.end('other', SUCCESS);
    assert.equal(kit.state('s2'), 'cancelled');
  });
});

describe('[FANO-7] a turn that was asked before the one ahead of it ended', () => {
  const answer = (kit: EngineKit, id: string): void => {
    kit.accept(id);
    kit.pass(SERVICE_MS);
    kit.end(id, { ok: true, result: '"said"', thread: threadOn(seatOf(kit, id) as string) });
  };

  test('goes on in the thread that has just begun, before new conversations', () => {
    const kit = new EngineKit();
    kit.backend('a');
    kit.submit('s1', { session_id: 's' });
    kit.submit('new');
    kit.submit('s2', { session_id: 's' });
    answer(kit, 's1');
    assert.deepEqual([seatOf(kit, 's2'), kit.state('new')], ['a', 'queued']);
  });

  test('goes on where the conversation has moved to, and does not wait for its former seat', () => {
    const kit = waiting();
    kit.submit('s3', { session_id: 's' });
    kit.engine.queue.fleet.setUp('a', false);
    kit.step({ type: 'tick' });
    assert.equal(seatOf(kit, 's2'), 'b');
    kit.end('other', SUCCESS);
    kit.engine.queue.fleet.setUp('a', true);
    kit.submit('another');
    assert.equal(seatOf(kit, 'another'), 'a');
    kit.accept('another');
    answer(kit, 's2');
    assert.equal(seatOf(kit, 's3'), 'b');
  });

  test('does not wait for a seat whose thread is in doubt, nor does the turn that has left it so', () => {
    const kit = waiting();
    kit.submit('s3', { session_id: 's' });
    kit.end('other', SUCCESS);
    assert.equal(seatOf(kit, 's2'), 'a');
    kit.accept('s2');
    kit.found('s2', { is: 'conflict' });
    assert.equal(seatOf(kit, 's2'), 'b', 'its seat takes no job for a second');
    kit.accept('s2');
    kit.end('s2', FAILED);
    assert.equal(seatOf(kit, 's3'), 'b');
  });
});

test('[FANO-7] of the free workers with a cache, the one that has heard the longest part comes first', () => {
  const kit = new EngineKit();
  kit.backend('long');
  const turn = (id: string, messages: number): void => {
    kit.submit(id, { session_id: 's', messages });
    kit.accept(id);
  };
  turn('s1', 5);
  kit.end('s1', SUCCESS);
  kit.submit('other');
  kit.backend('short');
  turn('s2', 3);
  assert.equal(seatOf(kit, 's2'), 'short', 'a cache is not waited for');
  kit.end('other', SUCCESS);
  kit.end('s2', SUCCESS);
  turn('s3', 5);
  assert.equal(seatOf(kit, 's3'), 'long');
});

test('[FANO-7] of the free seats with a thread, the one with the latest comes first, though another has heard more', () => {
  const kit = new EngineKit();
  const turn = (id: string, heard: number): void => {
    kit.submit(id, { session_id: 's' });
    kit.accept(id);
    const seat = seatOf(kit, id) as string;
    kit.end(id, { ok: true, result: '"said"', thread: { id: seat, messages: heard, hash: `h${heard}` } });
  };
  kit.backend('former');
  turn('s1', 8);
  kit.engine.queue.fleet.setUp('former', false);
  kit.backend('latest');
  // The client has taken back most of the conversation.
  turn('s2', 4);
  kit.engine.queue.fleet.setUp('former', true);
  kit.submit('s3', { session_id: 's' });
  assert.equal(seatOf(kit, 's3'), 'latest');
  // The latest one is not there: of the others, the one that has heard the most.
  kit.accept('s3');
  kit.submit('s4', { session_id: 's' });
  kit.engine.queue.fleet.setUp('latest', false);
  kit.end('s3', { ok: true, result: '"said"', thread: { id: 'latest', messages: 6, hash: 'h6' } });
  assert.equal(seatOf(kit, 's4'), 'former');
});

describe('[FANO-7] who is next on a seat', () => {
  test('is a person before a batch turn that waits for it', () => {
    const kit = waiting();
    kit.submit('b1');
    kit.submit('p', { priority: 'interactive' });
    kit.end('other', SUCCESS);
    assert.deepEqual([seatOf(kit, 'p'), why(kit, 's2')], ['a', 'sticky']);
  });

  test('is a conversation that has begun before a new one that came earlier', () => {
    const kit = new EngineKit();
    kit.backend('a');
    say(kit, 's1', 's');
    kit.submit('other');
    kit.accept('other');
    kit.submit('new');
    kit.submit('s2', { session_id: 's' });
    kit.end('other', SUCCESS);
    assert.deepEqual([seatOf(kit, 's2'), kit.state('new')], ['a', 'queued']);
  });

  test('is a new conversation that has waited longer than moving costs, so that it begins at last', () => {
    const kit = waiting();
    kit.submit('b1');
    kit.submit('new');
    kit.accept('b1');
    assert.deepEqual([seatOf(kit, 'b1'), kit.state('new')], ['b', 'queued']);
    kit.end('other', SUCCESS);
    assert.equal(seatOf(kit, 's2'), 'a');
    // From here on the conversation asks again as soon as it was answered.
    let turn = 2;
    for (; turn < 40 && kit.state('new') === 'queued'; turn++) {
      kit.accept(`s${turn}`);
      kit.pass(SERVICE_MS);
      kit.submit(`s${turn + 1}`, { session_id: 's' });
      kit.end(`s${turn}`, { ok: true, result: '"said"', thread: threadOn('a') });
    }
    assert.ok(turn > 3 && turn < 40, `after ${turn} turns`);
  });

  test('the agent of a turn that has waited for its seat is charged for it', () => {
    const kit = waiting({}, { agent: 'talker' });
    for (const agent of ['talker', 'quiet']) kit.submit(agent, { agent });
    kit.accept('talker');
    for (const id of ['t1', 't2']) kit.submit(id, { agent: 'talker' });
    for (const id of ['q1', 'q2']) kit.submit(id, { agent: 'quiet' });
    kit.end('other', SUCCESS);
    assert.equal(seatOf(kit, 's2'), 'a');
    kit.accept('s2');
    kit.end('s2', SUCCESS);
    assert.equal(kit.claims.at(-1), 'quiet');
  });
});

describe('a limit', () => {
  test('also holds for a turn that waits for its seat', () => {
    const limits = [{ scope: 'agent:default/someone', running: 2 }] as EngineSettings['limits'];
    const kit = waiting({ ...SETTINGS, limits });
    kit.submit('b1');
    kit.accept('b1');
    kit.submit('x', { agent: 'else' });
    assert.equal(why(kit, 's2'), 'sticky');
    kit.backend('a', { slots: 2 });
    assert.equal(why(kit, 's2'), 'quota');
    kit.end('other', SUCCESS);
    assert.equal(seatOf(kit, 's2'), 'a');
  });
});
