/**
 * One decision of the engine where all jobs are turns of conversations, and wait for the seat that has heard theirs: an
 * outcome frees a seat, and the next of the jobs that wait for it is claimed. The number of waiting jobs is the same
 * before and after each decision.
 */
import type { Submission } from '../../src/core/admission/submission.ts';
import { Engine } from '../../src/core/engine/engine.ts';
import type { JobEntry } from '../../src/core/state/job-entry.ts';
import { DEFAULT_TENANT, scoped, tokenOf } from '../../src/model/records.ts';
import { backendInfo, SETTINGS, START, submission } from '../../test/fakes/engine-kit.ts';
import type { Bench, Row, Values } from '../kit/bench.ts';
import { inChild } from '../kit/child.ts';
import { now, quantile } from '../kit/numbers.ts';

const BATCH = 1000;
const STEP_MS = 5;

interface Args {
  readonly seats: number;
  readonly parked: number;
  readonly steps: number;
}

const seatName = (seat: number): string => `seat-${seat}`;

class BenchEngine {
  readonly #engine: Engine;
  readonly #seats: number;
  readonly #running: JobEntry[] = [];
  #now = START;
  #made = 0;

  constructor(seats: number) {
    this.#seats = seats;
    // Nobody moves, however many wait.
    const sticky = { enabled: true, price: 1_000_000 };
    this.#engine = new Engine({
      settings: { ...SETTINGS, sticky, queueCapacity: 1e7 },
      random: () => 0,
    });
    this.#engine.step({ type: 'open', owner: 'bench' }, this.#now);
    for (let seat = 0; seat < seats; seat++) {
      this.#engine.step({ type: 'backend', info: backendInfo(seatName(seat)) }, this.#now);
      const submissions = [submission(`first-${seat}`)];
      this.#running.push(claimed(this.#engine.step({ type: 'submit', submissions }, this.#now).touched));
    }
  }

  /** Jobs of conversations, each of which has a thread on one of the seats. */
  park(count: number): void {
    for (let done = 0; done < count; done += BATCH) {
      const submissions = Array.from({ length: Math.min(BATCH, count - done) }, (_, at) =>
        this.#turn((done + at) % this.#seats),
      );
      this.#engine.step({ type: 'submit', submissions }, this.#now);
    }
  }

  get parked(): number {
    return this.#engine.queue.sticky.size;
  }

  /** The running job of a seat ends. Returns the time of the step, which claims the next one. */
  next(seat: number): number {
    const running = this.#running[seat] as JobEntry;
    const token = tokenOf(running.uid, running.open?.n ?? 0);
    this.#now += STEP_MS;
    this.#engine.step({ type: 'offered', token, answer: { is: 'accepted' } }, this.#now);
    const thread = { id: 't', messages: 2, hash: 'h' };
    const outcome = { ok: true, result: 'null', thread } as const;
    const start = now();
    const { touched } = this.#engine.step({ type: 'outcome', token, outcome }, this.#now);
    const ms = now() - start;
    this.#engine.step({ type: 'indexed', uids: [{ uid: running.uid, seq: running.seq }] }, this.#now);
    this.#engine.step({ type: 'submit', submissions: [this.#turn(seat)] }, this.#now);
    this.#running[seat] = claimed(touched);
    return ms;
  }

  #turn(seat: number): Submission {
    const n = this.#made++;
    const id = `c${n}`;
    this.#engine.state.apply(
      {
        kind: 'session',
        id: scoped(DEFAULT_TENANT, id),
        after: {
          v: 3,
          tenant: DEFAULT_TENANT,
          id,
          createdAt: this.#now,
          usedAt: this.#now,
          turns: 1,
          tokensUsed: 0,
          tokenBudget: undefined,
          threads: [{ backend: seatName(seat), thread: 't', heard: 2, hash: 'h' }],
          messages: undefined,
          metadata: undefined,
        },
        cause: 'used',
      },
      this.#now,
    );
    return submission(`turn-${n}`, { session_id: id, messages: 3 });
  }
}

function claimed(touched: Iterable<JobEntry>): JobEntry {
  const entry = [...touched].find(({ job }) => job.state === 'claimed');
  if (!entry) throw new Error('nothing was claimed');
  return entry;
}

export async function measure({ seats, parked, steps }: Args): Promise<Values> {
  const engine = new BenchEngine(seats);
  engine.park(parked);
  const run = (count: number): number[] =>
    Array.from({ length: count }, (_, at) => engine.next(at % seats) * 1000);
  run(steps);
  const times = run(steps);
  return { p50Us: quantile(times, 0.5), p99Us: quantile(times, 0.99), parked: engine.parked };
}

export const bench: Bench = {
  name: 'sticky',
  title: 'decisions of the engine where every job waits for the seat with its conversation',
  rounds: 'once',
  async run({ quick }) {
    const rows: Row[] = [];
    const steps = quick ? 3000 : 10_000;
    for (let round = 0; round < (quick ? 1 : 3); round++) {
      for (const seats of [10, 1000]) {
        const args = { seats, parked: 100_000, steps };
        const flags = ['--max-old-space-size=4096'];
        const values = await inChild({ measure, url: import.meta.url }, args, flags);
        rows.push({ case: `sticky, ${seats} seats`, values });
      }
    }
    return rows;
  },
};
