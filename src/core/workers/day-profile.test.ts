import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BIN_MS, DayProfile } from './day-profile.ts';

const DAY = 96 * BIN_MS;
/** A Monday. */
const MONDAY = 4 * DAY;

const perBin = (profile: DayProfile, at: number): number | undefined => {
  const rate = profile.perMs(at);
  return rate === undefined ? undefined : Math.round(rate * BIN_MS * 100) / 100;
};

test('a time of day that was not observed yet has no rate', () => {
  const profile = new DayProfile();
  profile.advance(MONDAY);
  profile.advance(MONDAY + 8 * BIN_MS);
  assert.equal(perBin(profile, MONDAY + 4 * BIN_MS), 0);
  assert.equal(perBin(profile, MONDAY + 20 * BIN_MS), undefined);
  assert.equal(profile.usualPerMs(MONDAY + 20 * BIN_MS, 'most'), undefined);
});

test('a bin observed for half of its time is scaled up, one observed for less is not counted', () => {
  for (const [seen, expected] of [
    [0.5, 20],
    [0.25, undefined],
  ] as const) {
    const profile = new DayProfile();
    profile.advance(MONDAY + (1 - seen) * BIN_MS);
    profile.add(MONDAY + 0.9 * BIN_MS, 10);
    profile.advance(MONDAY + BIN_MS);
    assert.equal(perBin(profile, MONDAY + DAY), expected);
  }
});

test('neighbouring bins smooth the pattern; the usual range includes a quarter of an hour early or late', () => {
  const profile = new DayProfile();
  profile.advance(MONDAY);
  profile.add(MONDAY + 10.5 * BIN_MS, 100);
  profile.advance(MONDAY + DAY);
  const rates = [8, 9, 10, 11, 12].map((bin) => perBin(profile, MONDAY + DAY + bin * BIN_MS));
  assert.deepEqual(rates, [0, 25, 50, 25, 0]);
  const most = profile.usualPerMs(MONDAY + DAY + 9 * BIN_MS, 'most')!;
  assert.equal(Math.round(most * BIN_MS), 100);
  assert.equal(profile.usualPerMs(MONDAY + DAY + 10 * BIN_MS, 'least'), 0);
});

test('the pattern follows a change within days, and months without a call cost little time', () => {
  const profile = new DayProfile();
  profile.advance(MONDAY);
  for (let bin = 0; bin < 96; bin++) profile.add(MONDAY + (bin + 0.5) * BIN_MS, 90);
  const levels = [1, 2, 3, 4].map((day) => {
    profile.advance(MONDAY + day * DAY);
    return Math.round(perBin(profile, MONDAY + day * DAY + 40 * BIN_MS)!);
  });
  assert.deepEqual(levels, [90, 45, 30, 20]);
  profile.advance(MONDAY + 1000 * DAY);
  assert.ok(perBin(profile, MONDAY + 1000 * DAY + 40 * BIN_MS)! < 1);
});

test('a record of another shape is ignored', () => {
  const profile = new DayProfile();
  profile.load({ means: [[1, 2]], days: [[1, 1]] });
  assert.equal(profile.perMs(MONDAY), undefined);
});
