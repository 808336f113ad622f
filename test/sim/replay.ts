/**
 * A lane under load, replayed on the real engine with a clock of its own: what each job was told at its submit,
 * and when it really started.
 */
import type { JobClass } from '../../src/model/records.ts';
import { seededRandom } from '../crash/steady-env.ts';
import { EngineKit, SUCCESS } from '../fakes/engine-kit.ts';

/** How jobs of one class come and run. */
export interface Load {
  readonly class: JobClass;
  /** Jobs per second in calm times, and in a burst. */
  readonly calm: number;
  readonly burst: number;
  readonly medianMs: number;
  /** Standard deviation of the logarithm of the service time. */
  readonly sigma: number;
}

export interface ReplayOptions {
  readonly seed: number;
  readonly backends: number;
  readonly slots: number;
  readonly loads: readonly Load[];
  readonly burstEveryMs: number;
  readonly burstMs: number;
  readonly lengthMs: number;
}

/** The prediction that a job was given, and how long it waited. */
export interface Told {
  readonly class: JobClass;
  readonly position: number;
  readonly predictedMs: number | undefined;
  /** The mean service time known at that instant. */
  readonly meanMs: number | undefined;
  readonly waitedMs: number;
}

interface Arrival {
  readonly at: number;
  readonly load: Load;
  readonly runsMs: number;
}

interface Waiting {
  readonly at: number;
  readonly told: Omit<Told, 'waitedMs'>;
  readonly runsMs: number;
}

/** A normal deviate. */
const normal = (next: () => number): number =>
  Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next());

/** Poisson arrivals whose rate rises in bursts, in order of time. */
function arrivals(options: ReplayOptions): Arrival[] {
  const { next } = seededRandom(options.seed);
  const all: Arrival[] = [];
  for (const load of options.loads) {
    const most = Math.max(load.calm, load.burst);
    for (let at = 0; at < options.lengthMs; ) {
      at += (-Math.log(1 - next()) / most) * 1000;
      const rate = at % options.burstEveryMs < options.burstMs ? load.burst : load.calm;
      const runsMs = Math.max(1, Math.round(load.medianMs * Math.exp(load.sigma * normal(next))));
      if (next() < rate / most) all.push({ at: Math.round(at), load, runsMs });
    }
  }
  return all.sort((a, b) => a.at - b.at);
}

class Replay {
  readonly told: Told[] = [];
  readonly #kit = new EngineKit({ queueCapacity: 100_000 });
  readonly #start = this.#kit.now;
  readonly #waiting = new Map<string, Waiting>();
  /** Ends of running jobs, soonest first. */
  readonly #ends: { readonly at: number; readonly id: string }[] = [];
  #seen = 0;

  constructor({ backends, slots }: ReplayOptions) {
    for (let n = 0; n < backends; n++) this.#kit.backend(`b${n}`, { slots });
    this.#seen = this.#kit.log.length;
  }

  submit(id: string, { at, load, runsMs }: Arrival): void {
    this.endsUntil(this.#start + at);
    this.#kit.now = this.#start + at;
    const answer = this.#kit.submit(id, { priority: load.class });
    const meanMs = [...this.#kit.engine.queue.fleet.lanes.values()][0]?.serviceMs;
    const { queuePosition: position = -1, predictedStartMs: predictedMs } = answer;
    const told = { class: load.class, position, predictedMs, meanMs };
    this.#waiting.set(id, { at: this.#kit.now, told, runsMs });
    this.#acceptClaims();
  }

  endsUntil(now: number): void {
    while (this.#ends.length > 0 && this.#ends[0]!.at <= now) {
      const { at, id } = this.#ends.shift()!;
      this.#kit.now = at;
      this.#kit.end(id, SUCCESS);
      this.#acceptClaims();
    }
  }

  #acceptClaims(): void {
    const { log } = this.#kit;
    for (; this.#seen < log.length; this.#seen++) {
      const { change } = log[this.#seen]!;
      if (change.kind !== 'job' || change.after?.state !== 'claimed') continue;
      const { at, told, runsMs } = this.#waiting.get(change.id)!;
      this.#kit.accept(change.id);
      this.told.push({ ...told, waitedMs: this.#kit.now - at });
      const end = { at: this.#kit.now + runsMs, id: change.id };
      const place = this.#ends.findIndex((other) => other.at > end.at);
      this.#ends.splice(place < 0 ? this.#ends.length : place, 0, end);
    }
  }
}

/** Runs the whole trace; the jobs that had to wait and could be told something. */
export function replay(options: ReplayOptions): Told[] {
  const world = new Replay(options);
  for (const [n, arrival] of arrivals(options).entries()) world.submit(`j${n}`, arrival);
  world.endsUntil(Number.POSITIVE_INFINITY);
  return world.told.filter(
    ({ waitedMs, predictedMs, meanMs }) => waitedMs > 0 && predictedMs !== undefined && meanMs !== undefined,
  );
}

/** The middle of |told − real| / real, where a real wait counts for at least 50 ms. */
export function medianError(told: readonly Told[], predict: (one: Told) => number): number {
  const errors = told.map((one) => Math.abs(predict(one) - one.waitedMs) / Math.max(one.waitedMs, 50));
  return errors.sort((a, b) => a - b)[Math.floor(errors.length / 2)] ?? Number.NaN;
}
