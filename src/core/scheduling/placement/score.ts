/**
 * Chooses one of several candidates for a job. The result does not depend on the order of the list.
 *
 * P1  A candidate without a free slot is never chosen.
 * P2  A candidate of the preferred region comes before all others, then the algorithm, then which candidate got a job least recently.
 */
import type { PlacementAlgorithm } from '../../settings.ts';

export interface PlacementCandidate {
  readonly name: string;
  readonly used: number;
  readonly slots: number;
  readonly vramFree: number;
  readonly vramTotal: number;
  /** When the candidate last got a job, as a growing number: the smallest is the least recent. */
  readonly lastPick: number;
  /** The candidate's fixed rank; no two candidates share one. */
  readonly order: number;
  /** The measured decode speed; undefined until one was measured. */
  readonly decodeTokensPerSec: number | undefined;
  readonly region: string | undefined;
}

export interface PlacementOptions {
  /** The region to prefer; undefined if the region does not matter. */
  readonly region?: string | undefined;
  /** The `order` of the candidate chosen last, for round-robin. */
  readonly cursor?: number | undefined;
}

export interface Choice {
  readonly index: number;
  readonly reason: 'only-free' | PlacementAlgorithm | `region+${PlacementAlgorithm}`;
}

/** The chosen candidate; undefined if no candidate has a free slot. */
export function choose(
  algorithm: PlacementAlgorithm,
  candidates: readonly PlacementCandidate[],
  options: PlacementOptions = {},
): Choice | undefined {
  const eligible = findEligible(candidates, options.region);
  if (eligible.count === 0) return undefined;
  let best = -1;
  for (let at = 0; at < candidates.length; at++) {
    const candidate = candidates[at]!;
    if (!isEligible(eligible, candidate, options.region)) continue;
    if (best < 0 || goesBefore(algorithm, candidate, candidates[best]!, eligible, options)) best = at;
  }
  return { index: best, reason: reasonOf(eligible, algorithm) };
}

/** The eligible candidates: those with a free slot that are nearest. */
interface Eligible {
  /** Candidates with a free slot. */
  free: number;
  /** How many of these are eligible. */
  count: number;
  /** The distance of the eligible candidates. */
  distance: number;
  /** The highest decode speed of an eligible candidate. */
  speed: number;
}

function findEligible(candidates: readonly PlacementCandidate[], region: string | undefined): Eligible {
  const eligible: Eligible = { free: 0, count: 0, distance: 0, speed: 0 };
  for (const candidate of candidates) {
    if (!isFree(candidate)) continue;
    eligible.free++;
    const distance = distanceOf(candidate, region);
    if (eligible.count > 0 && distance !== eligible.distance) {
      if (distance > eligible.distance) continue;
      eligible.count = 0;
    }
    if (eligible.count === 0) eligible.speed = 0;
    eligible.distance = distance;
    eligible.count++;
    eligible.speed = Math.max(eligible.speed, candidate.decodeTokensPerSec ?? 0);
  }
  return eligible;
}

const isFree = ({ used, slots }: PlacementCandidate): boolean => used < slots;

/** 0 in the preferred region, or where none is preferred; every other region is equally far. */
const distanceOf = ({ region }: PlacementCandidate, from: string | undefined): number =>
  from === undefined || region === from ? 0 : 1;

const isEligible = (eligible: Eligible, candidate: PlacementCandidate, region: string | undefined): boolean =>
  isFree(candidate) && distanceOf(candidate, region) === eligible.distance;

function goesBefore(
  algorithm: PlacementAlgorithm,
  a: PlacementCandidate,
  b: PlacementCandidate,
  eligible: Eligible,
  { cursor }: PlacementOptions,
): boolean {
  let difference = 0;
  switch (algorithm) {
    case 'least-loaded':
      difference = loadOf(a) - loadOf(b);
      break;
    case 'most-vram-free':
      difference = b.vramFree - a.vramFree;
      break;
    case 'multi-objective':
      difference = costOf(a, eligible) - costOf(b, eligible);
      break;
    case 'round-robin':
      return roundOf(a, cursor) === roundOf(b, cursor)
        ? a.order < b.order
        : roundOf(a, cursor) < roundOf(b, cursor);
  }
  if (difference !== 0) return difference < 0;
  return a.lastPick === b.lastPick ? a.order < b.order : a.lastPick < b.lastPick;
}

const loadOf = ({ used, slots }: PlacementCandidate): number => used / slots;

/** Round-robin: candidates after the last chosen one are in round 0, the others in round 1. */
const roundOf = ({ order }: PlacementCandidate, cursor: number | undefined): number =>
  cursor === undefined || order > cursor ? 0 : 1;

/** The sum of three objectives that count the same, each from 0 (best) to 1: slowness, full memory and load. */
function costOf(candidate: PlacementCandidate, { speed }: Eligible): number {
  const load = loadOf(candidate);
  // A candidate without a measurement counts as the fastest; otherwise it might never get a job.
  const own = candidate.decodeTokensPerSec || speed;
  const pace = speed === 0 ? 1 : own / speed;
  // The slots of a worker share its speed: the more are used, the slower each is.
  const slowness = 1 - pace / (1 + load);
  const filled = candidate.vramTotal > 0 ? 1 - candidate.vramFree / candidate.vramTotal : 1;
  return slowness + filled + load;
}

const BY_REGION = {
  'least-loaded': 'region+least-loaded',
  'most-vram-free': 'region+most-vram-free',
  'round-robin': 'region+round-robin',
  'multi-objective': 'region+multi-objective',
} as const;

function reasonOf(eligible: Eligible, algorithm: PlacementAlgorithm): Choice['reason'] {
  if (eligible.free === 1) return 'only-free';
  return eligible.count < eligible.free ? BY_REGION[algorithm] : algorithm;
}
