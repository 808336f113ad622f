/**
 * Which of the candidates gets the job. Plain numbers in, one index out; the same for any order of the list.
 *
 * P1  A candidate without a free slot is never chosen.
 * P2  Who holds the context of the session is chosen before all who do not.
 * P3  Then the nearest region, then the algorithm, then the one that waited longest.
 */
import type { PlacementAlgorithm } from '../../settings.ts';

export interface Candidate {
  readonly name: string;
  readonly used: number;
  readonly slots: number;
  readonly vramFree: number;
  readonly vramTotal: number;
  /** Grows with every job given: the smallest waited longest. */
  readonly lastPick: number;
  /** Its fixed place among all; no two have the same. */
  readonly order: number;
  /** Measured; undefined until it was. */
  readonly decodeTokensPerSec: number | undefined;
  readonly region: string | undefined;
  readonly holdsContext: boolean;
  readonly rttMs?: number | undefined;
}

/** How much each objective counts; only their proportion matters. */
export interface Weights {
  readonly latency: number;
  readonly vram: number;
  readonly balance: number;
}

export const EVEN_WEIGHTS: Weights = { latency: 1, vram: 1, balance: 1 };

export interface PlacementOptions {
  /** Where the work comes from; undefined where nearness does not matter. */
  readonly region?: string | undefined;
  readonly weights?: Weights | undefined;
  /** The `order` of the last one chosen in turn. */
  readonly cursor?: number | undefined;
}

export interface Choice {
  readonly index: number;
  readonly reason: 'only-free' | 'context' | PlacementAlgorithm | `region+${PlacementAlgorithm}`;
}

/** Differences of a way that nobody notices: within one step the algorithm decides. */
const RTT_STEP_MS = 20;

/** Undefined where no candidate has a free slot. */
export function choose(
  algorithm: PlacementAlgorithm,
  candidates: readonly Candidate[],
  options: PlacementOptions = {},
): Choice | undefined {
  const field = survey(candidates, options.region);
  if (field.eligible === 0) return undefined;
  let best = -1;
  for (let at = 0; at < candidates.length; at++) {
    const candidate = candidates[at]!;
    if (!isIn(field, candidate, options.region)) continue;
    if (best < 0 || goesBefore(algorithm, candidate, candidates[best]!, field, options)) best = at;
  }
  return { index: best, reason: reasonOf(field, algorithm) };
}

/** What must be known of all before any two can be compared. */
interface Field {
  free: number;
  eligible: number;
  context: boolean;
  distance: number;
  /** The best decode speed among the eligible. */
  speed: number;
}

function survey(candidates: readonly Candidate[], region: string | undefined): Field {
  const field: Field = { free: 0, eligible: 0, context: false, distance: 0, speed: 0 };
  for (const candidate of candidates) {
    if (!isFree(candidate)) continue;
    field.free++;
    const distance = distanceOf(candidate, region);
    if (field.eligible > 0) {
      if (candidate.holdsContext !== field.context) {
        if (field.context) continue;
        field.eligible = 0;
      } else if (distance !== field.distance) {
        if (distance > field.distance) continue;
        field.eligible = 0;
      }
    }
    if (field.eligible === 0) field.speed = 0;
    field.context = candidate.holdsContext;
    field.distance = distance;
    field.eligible++;
    field.speed = Math.max(field.speed, candidate.decodeTokensPerSec ?? 0);
  }
  return field;
}

const isFree = ({ used, slots }: Candidate): boolean => used < slots;

/** The same region is nearest; then by the way, and one whose way nobody knows last. */
function distanceOf({ region, rttMs }: Candidate, from: string | undefined): number {
  if (from === undefined || region === from) return 0;
  return rttMs === undefined ? Number.POSITIVE_INFINITY : 1 + Math.floor(Math.max(0, rttMs) / RTT_STEP_MS);
}

const isIn = (field: Field, candidate: Candidate, region: string | undefined): boolean =>
  isFree(candidate) &&
  candidate.holdsContext === field.context &&
  distanceOf(candidate, region) === field.distance;

function goesBefore(
  algorithm: PlacementAlgorithm,
  a: Candidate,
  b: Candidate,
  field: Field,
  { weights = EVEN_WEIGHTS, cursor }: PlacementOptions,
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
      difference = costOf(a, weights, field) - costOf(b, weights, field);
      break;
    case 'round-robin':
      return turnOf(a, cursor) === turnOf(b, cursor)
        ? a.order < b.order
        : turnOf(a, cursor) < turnOf(b, cursor);
  }
  if (difference !== 0) return difference < 0;
  return a.lastPick === b.lastPick ? a.order < b.order : a.lastPick < b.lastPick;
}

const loadOf = ({ used, slots }: Candidate): number => used / slots;

/** Those behind the last one chosen come first; then it starts over. */
const turnOf = ({ order }: Candidate, cursor: number | undefined): number =>
  cursor === undefined || order > cursor ? 0 : 1;

/** Each objective from 0, the best there could be, to 1. */
function costOf(candidate: Candidate, { latency, vram, balance }: Weights, { speed }: Field): number {
  const load = loadOf(candidate);
  // One that was not measured counts as the fastest: otherwise it would never be tried.
  const own = candidate.decodeTokensPerSec || speed;
  const pace = speed === 0 ? 1 : own / speed;
  // The slots of a worker share its speed: the more are taken, the slower each gets.
  const slowness = 1 - pace / (1 + load);
  const filled = candidate.vramTotal > 0 ? 1 - candidate.vramFree / candidate.vramTotal : 1;
  return latency * slowness + vram * filled + balance * load;
}

const NEAR = {
  'least-loaded': 'region+least-loaded',
  'most-vram-free': 'region+most-vram-free',
  'round-robin': 'region+round-robin',
  'multi-objective': 'region+multi-objective',
} as const;

function reasonOf(field: Field, algorithm: PlacementAlgorithm): Choice['reason'] {
  if (field.context) return 'context';
  if (field.free === 1) return 'only-free';
  return field.eligible < field.free ? NEAR[algorithm] : algorithm;
}
