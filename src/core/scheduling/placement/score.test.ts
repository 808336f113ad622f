import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { PlacementAlgorithm } from '../../settings.ts';
import { choose, type PlacementCandidate, type PlacementOptions } from './score.ts';

const ALGORITHMS: readonly PlacementAlgorithm[] = [
  'least-loaded',
  'most-vram-free',
  'round-robin',
  'multi-objective',
];

const PLAIN: PlacementCandidate = {
  name: 'w',
  used: 0,
  slots: 4,
  vramFree: 10,
  vramTotal: 80,
  lastPick: 0,
  order: 0,
  decodeTokensPerSec: undefined,
  region: undefined,
};

const among = (...fields: Partial<PlacementCandidate>[]): PlacementCandidate[] =>
  fields.map((given, at) => ({ ...PLAIN, name: `w${at}`, order: at, ...given }));

const small = (max: number) => fc.integer({ min: 0, max });

const anyField = fc.record({
  used: small(4),
  slots: small(4),
  vramFree: small(3).map((units) => units * 20),
  vramTotal: fc.constantFrom(0, 80),
  lastPick: small(3),
  decodeTokensPerSec: fc.option(
    small(3).map((units) => units * 30),
    { nil: undefined },
  ),
  region: fc.constantFrom(undefined, 'east', 'west'),
});

const anyCandidates = fc.array(anyField, { maxLength: 12 }).map((fields) => among(...fields));
const anyOptions: fc.Arbitrary<PlacementOptions> = fc.record({
  region: fc.constantFrom(undefined, 'east', 'west', 'south'),
  cursor: fc.option(small(12), { nil: undefined }),
});
const anyAlgorithm = fc.constantFrom(...ALGORITHMS);

const isFree = ({ used, slots }: PlacementCandidate): boolean => used < slots;

test('P1, P2: only free candidates, of the nearest region first, then the algorithm', () => {
  fc.assert(
    fc.property(anyAlgorithm, anyCandidates, anyOptions, (algorithm, candidates, options) => {
      const choice = choose(algorithm, candidates, options);
      const free = candidates.filter(isFree);
      if (free.length === 0) return assert.equal(choice, undefined);
      const chosen = candidates[choice!.index]!;
      assert.ok(isFree(chosen));
      if (free.some(({ region }) => region === options.region)) {
        assert.ok(options.region === undefined || chosen.region === options.region);
      }
    }),
    { numRuns: 1000 },
  );
});

test('the choice does not depend on the order of the candidates', () => {
  const shuffled = anyCandidates.chain((candidates) =>
    fc.tuple(
      fc.constant(candidates),
      fc.shuffledSubarray(candidates, { minLength: candidates.length, maxLength: candidates.length }),
    ),
  );
  fc.assert(
    fc.property(anyAlgorithm, shuffled, anyOptions, (algorithm, [first, second], options) => {
      const one = choose(algorithm, first, options);
      const other = choose(algorithm, second, options);
      assert.deepEqual(choose(algorithm, first, options), one);
      assert.equal(one && first[one.index]!.name, other && second[other.index]!.name);
      assert.equal(one?.reason, other?.reason);
    }),
    { numRuns: 1000 },
  );
});

test('the chosen candidate is the best by the algorithm among the eligible ones', () => {
  fc.assert(
    fc.property(anyCandidates, (candidates) => {
      const free = candidates.filter(isFree);
      if (free.length === 0) return;
      const least = candidates[choose('least-loaded', candidates)!.index]!;
      const most = candidates[choose('most-vram-free', candidates)!.index]!;
      assert.equal(least.used / least.slots, Math.min(...free.map(({ used, slots }) => used / slots)));
      assert.equal(most.vramFree, Math.max(...free.map(({ vramFree }) => vramFree)));
    }),
  );
});

test('round-robin chooses each candidate once, in order, and then starts over', () => {
  const candidates = among({}, {}, { used: 4 }, {}, {});
  const names: string[] = [];
  let cursor: number | undefined;
  for (let n = 0; n < 9; n++) {
    const chosen = candidates[choose('round-robin', candidates, { cursor })!.index]!;
    cursor = chosen.order;
    names.push(chosen.name);
  }
  assert.deepEqual(names, ['w0', 'w1', 'w3', 'w4', 'w0', 'w1', 'w3', 'w4', 'w0']);
});

test('among equals the candidate that got a job least recently is chosen', () => {
  const candidates = among({ lastPick: 3 }, { lastPick: 1 }, { lastPick: 2 });
  for (const algorithm of ['least-loaded', 'most-vram-free', 'multi-objective'] as const) {
    assert.deepEqual(choose(algorithm, candidates), { index: 1, reason: algorithm });
  }
});

test('[ORCH-16.1] each of the three objectives decides where the other two are the same', () => {
  const pick = (...fields: Partial<PlacementCandidate>[]) =>
    choose('multi-objective', among(...fields), {})!.index;
  assert.equal(pick({ decodeTokensPerSec: 20 }, { decodeTokensPerSec: 100 }), 1, 'speed');
  assert.equal(pick({ vramFree: 10 }, { vramFree: 70 }), 1, 'memory');
  assert.equal(pick({ used: 1 }, { used: 0 }), 1, 'load');
  // By speed alone the second one would be chosen, though it shares its speed among its jobs.
  assert.equal(pick({ decodeTokensPerSec: 50 }, { decodeTokensPerSec: 100, used: 2 }), 0, 'balance');
});

test('a much lower load makes up for a little less speed, and a worker without a measurement is tried', () => {
  const pick = (...fields: Partial<PlacementCandidate>[]) =>
    choose('multi-objective', among(...fields), {})!.index;
  assert.equal(pick({ decodeTokensPerSec: 50 }, { decodeTokensPerSec: 60, used: 3 }), 0);
  assert.equal(pick({ decodeTokensPerSec: 60, lastPick: 1 }, {}), 1);
});

test('[ORCH-16.3] when the preferred region is full, the algorithm chooses among all others', () => {
  const candidates = among(
    { region: 'east', used: 4 },
    { region: 'west', used: 1 },
    { region: 'south', used: 2 },
    { region: 'north' },
  );
  assert.deepEqual(choose('least-loaded', candidates, { region: 'east' }), {
    index: 3,
    reason: 'least-loaded',
  });
});

test('the speed of ineligible candidates changes nothing', () => {
  const far: Partial<PlacementCandidate> = { region: 'west', decodeTokensPerSec: 1000 };
  const near: Partial<PlacementCandidate>[] = [
    { region: 'east', lastPick: 5 },
    { region: 'east', lastPick: 1, decodeTokensPerSec: 60 },
  ];
  for (const candidates of [among(far, ...near), among(...near, far)]) {
    const { index } = choose('multi-objective', candidates, { region: 'east' })!;
    assert.equal(candidates[index]!.decodeTokensPerSec, 60);
  }
});

/** Microseconds of a choice, the median of many. */
function choiceUs(algorithm: (typeof ALGORITHMS)[number], count: number): number {
  const candidates = among(
    ...Array.from({ length: count }, (_, at) => ({
      used: at % 4,
      vramFree: (at * 37) % 80,
      lastPick: (at * 7919) % 1000,
      decodeTokensPerSec: 20 + (at % 50),
      region: at % 3 === 0 ? 'east' : 'west',
    })),
  );
  const runs: number[] = [];
  for (let n = 0; n < 300; n++) {
    const begun = performance.now();
    choose(algorithm, candidates, { region: 'east', cursor: n });
    runs.push(performance.now() - begun);
  }
  return runs.sort((a, b) => a - b)[150]! * 1000;
}

test('the time of a choice grows no faster than the number of candidates', (t) => {
  for (const algorithm of ALGORITHMS) {
    choiceUs(algorithm, 1000);
    const [few, many] = [choiceUs(algorithm, 1000), choiceUs(algorithm, 8000)];
    t.diagnostic(`${algorithm}: ${few.toFixed(0)} and ${many.toFixed(0)} µs`);
    assert.ok(many / few < 24, `${algorithm}: ${few} µs among 1,000, ${many} µs among 8,000`);
  }
});
