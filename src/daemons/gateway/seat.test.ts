import assert from 'node:assert/strict';
import { test } from 'node:test';
import { seatOrder } from '../../../test/fakes/fake-driver.ts';
import { admit, type Reservation, restMs, Seat, type SeatCaller, type SeatLoad } from './seat.ts';

const NOW = 1000;
const stands = (owner: string): Reservation => ({ owner, until: NOW + 1 });
const lapsed = (owner: string): Reservation => ({ owner, until: NOW });
const me: SeatCaller = { owner: 'me' };

const TABLE: readonly [string, Partial<SeatLoad>, SeatCaller, string][] = [
  ['an empty seat is free', {}, me, 'free'],
  ['a running request occupies it', { running: 1 }, me, 'occupied'],
  ['the queue does not wait in it either', { running: 1 }, 'queue', 'occupied'],
  ['it is kept for another owner', { reservations: [stands('other')] }, me, 'reserved'],
  ['it is free for the owner it is kept for', { reservations: [stands('me')] }, me, 'free'],
  ['the first of two comes first', { reservations: [stands('me'), stands('other')] }, me, 'free'],
  ['the second of two waits', { reservations: [stands('other'), stands('me')] }, me, 'reserved'],
  ['a lapsed reservation counts no longer', { reservations: [lapsed('other')] }, me, 'free'],
  ['the queue respects every reservation', { reservations: [stands('me')] }, 'queue', 'reserved'],
  ['the queue takes it after a lapsed one', { reservations: [lapsed('me')] }, 'queue', 'free'],
  ['with two slots, two may be reserved', { slots: 2, reservations: [stands('other')] }, me, 'free'],
  ['of two slots one runs', { slots: 2, running: 1, reservations: [stands('other')] }, me, 'reserved'],
  [
    'with room for both the queue still waits',
    { slots: 9, reservations: [stands('other')] },
    'queue',
    'reserved',
  ],
  ['a seat rests', { rest: { reason: 'quota', until: NOW + 5 } }, me, 'quota'],
  ['a rest comes before all else', { running: 1, rest: { reason: 'quota', until: NOW + 5 } }, me, 'quota'],
  ['a held seat takes nothing', { hold: 'auth_required' }, me, 'auth_required'],
  ['a rest that is over', { rest: { reason: 'quota', until: NOW } }, me, 'free'],
];

const RETRY_MS: Readonly<Record<string, number>> = { quota: 5, auth_required: 60_000 };

for (const [title, load, caller, expected] of TABLE) {
  test(`[FANO-6] who may use a seat: ${title}`, () => {
    const empty = { slots: 1, running: 0, reservations: [], rest: undefined, hold: undefined };
    const whole = { ...empty, reservationMs: 2000, ...load };
    const verdict = admit(whole, caller, NOW);
    assert.equal(verdict.is === 'free' ? 'free' : verdict.reason, expected);
    if (verdict.is === 'busy') assert.equal(verdict.retryAfterMs, RETRY_MS[expected] ?? 1000);
  });
}

test('[FANO-6] a try renews a reservation and keeps its place; an admitted caller has none', () => {
  const seat = new Seat(seatOrder('s'), 100);
  seat.reserve('a', 0);
  seat.reserve('b', 50);
  seat.reserve('a', 90);
  const owners = (): string[] => seat.load(0).reservations.map(({ owner }) => owner);
  assert.deepEqual([owners(), seat.nextChange(100)], [['a', 'b'], 150]);
  assert.deepEqual([seat.hasReservation(189), seat.hasReservation(190)], [true, false]);
  seat.reserve('c', 160);
  assert.deepEqual(owners(), ['a', 'c'], 'a lapsed one has lost its place');
  seat.admitted('a');
  assert.deepEqual(owners(), ['c']);
});

test('a seat rests for as long as the provider says, or for longer with every failure in a row', () => {
  assert.equal(restMs('rate_limited', 1234, 1), 1234);
  assert.equal(restMs('rate_limited', 400 * 86_400_000, 1), 86_400_000);
  assert.deepEqual(
    [1, 2, 3, 20].map((failures) => restMs('overloaded', undefined, failures)),
    [1000, 2000, 4000, 300_000],
  );
  assert.equal(restMs('auth_required', undefined, 1), 60_000);
  const seat = new Seat(seatOrder('s'), 100);
  assert.deepEqual(
    [0, 0, 999, 1000].map((now) => seat.turnedAway('overloaded', undefined, now)),
    [1000, 1000, 1, 2000],
    'calls that were under way when it began to rest count once',
  );
  seat.taken();
  assert.equal(seat.turnedAway('overloaded', undefined, 5000), 1000);
  assert.equal(seat.turnedAway('overloaded', 100, 5000), 100);
  assert.equal(seat.restsUntil(5000), 6000, 'of several waits the longest counts');
  seat.changed(seatOrder('s', { key: 'new' }));
  assert.equal(seat.restsUntil(5000), undefined);
});
