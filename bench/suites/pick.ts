/**
 * One decision of the engine: an outcome frees a slot, and the next job of that lane is claimed. There are 200 lanes, of
 * which three have a backend; the number of waiting jobs is the same before and after each decision.
 */

import { runtimeSettings } from '../../src/app/settings.ts';
import { loadConfig } from '../../src/config/load.ts';
import type { Submission } from '../../src/core/admission/submission.ts';
import { Engine } from '../../src/core/engine/engine.ts';
import type { BackendInfo } from '../../src/core/ports/backend.ts';
import type { JobEntry } from '../../src/core/state/job-entry.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { IdMaker } from '../../src/kit/ids.ts';
import { tokenOf } from '../../src/model/records.ts';
import { prepare, withPayload } from '../../src/runtime/prepare.ts';
import { type Bench, BODY, type Row, type Values } from '../kit/bench.ts';
import { CONFIG } from '../kit/brain.ts';
import { inChild } from '../kit/child.ts';
import { now, quantile } from '../kit/numbers.ts';

const LANES = 200;
const LANES_WITH_BACKEND = [17, 90, 171];
const PRINCIPALS = 4;
const FILL_BATCH = 1000;
const MAX_TRIES = 3;

/** Jobs that each parked job waits for. */
const AWAITED = 1000;

interface Args {
  readonly waiting: number;
  /** Jobs that wait for AWAITED other jobs each. */
  readonly parked: number;
  /** Jobs of an agent that may run one at a time, in lanes that have a backend. */
  readonly overLimit: number;
  readonly steps: number;
}

/** The limit of the agent with many jobs; others have none. */
const LIMIT = `
limits:
  - {scope: "agent:default/limited", running: 1}
`;

class BenchEngine {
  readonly #engine: Engine;
  readonly #env = realEnv();
  readonly #templates = templates();
  #time = Date.now();
  #made = 0;

  constructor(config: string) {
    const settings = runtimeSettings(loadConfig({ text: CONFIG + config })).engine;
    this.#engine = new Engine({ settings, random: () => this.#env.random.next() });
    this.#engine.step({ type: 'open', owner: 'bench' }, this.#time);
  }

  fill(waiting: number): void {
    for (let done = 0; done < waiting; done += FILL_BATCH) {
      const count = Math.min(FILL_BATCH, waiting - done);
      const submissions = Array.from({ length: count }, (_, at) => this.#submission((done + at) % LANES));
      this.#engine.step({ type: 'submit', submissions }, ++this.#time);
    }
  }

  /** Adds jobs that wait for others, which are in lanes without a backend. */
  park(count: number): void {
    const lanes = new Set(LANES_WITH_BACKEND.map((lane) => `lane-${lane}`));
    const others = [...this.#engine.state.jobs.values()].filter(({ ask }) => !lanes.has(ask.spec.type));
    const after = others.slice(0, AWAITED).map(({ ask }) => ask.id);
    const [lane = 0] = LANES_WITH_BACKEND;
    for (let done = 0; done < count; done++) {
      const submission = this.#submission(lane);
      const spec = { ...submission.spec, after };
      this.#engine.step({ type: 'submit', submissions: [{ ...submission, spec }] }, ++this.#time);
    }
  }

  /** Adds jobs of the limited agent. */
  overLimit(count: number): void {
    for (let done = 0; done < count; done += FILL_BATCH) {
      const submissions = Array.from({ length: Math.min(FILL_BATCH, count - done) }, (_, at) => {
        const lane = LANES_WITH_BACKEND[at % LANES_WITH_BACKEND.length] as number;
        const submission = this.#submission(lane);
        return { ...submission, spec: { ...submission.spec, agent: 'limited' } };
      });
      this.#engine.step({ type: 'submit', submissions }, ++this.#time);
    }
    while (this.#engine.queue.isUnfinished) this.#engine.step({ type: 'tick' }, ++this.#time);
  }

  /** Adds a backend and returns the job that it claims. */
  addBackend(lane: number): JobEntry {
    const info: BackendInfo = {
      name: `backend-${lane}`,
      kind: 'bench',
      slots: 1,
      types: [`lane-${lane}`],
      models: undefined,
      labels: {},
      paid: false,
      keepsResults: false,
      registry: 'bench',
    };
    return claimed(this.#engine.step({ type: 'backend', info }, this.#time).touched);
  }

  /** Ends a running job. Returns the job claimed in the same step and the time of that step. */
  next(running: JobEntry, lane: number): { entry: JobEntry; ms: number } {
    const token = tokenOf(running.uid, running.open?.n ?? 0);
    this.#engine.step({ type: 'offered', token, answer: { is: 'accepted' } }, ++this.#time);
    const start = now();
    const { touched } = this.#engine.step(
      { type: 'outcome', token, outcome: { ok: true, result: 'null' } },
      this.#time,
    );
    const ms = now() - start;
    this.#engine.step({ type: 'indexed', uids: [{ uid: running.uid, seq: running.seq }] }, this.#time);
    this.#engine.step({ type: 'submit', submissions: [this.#submission(lane)] }, this.#time);
    return { entry: claimed(touched), ms };
  }

  get waiting(): number {
    return this.#engine.state.counts.queued;
  }

  #submission(lane: number): Submission {
    const template = this.#templates[lane * PRINCIPALS + (this.#made++ % PRINCIPALS)] as Submission;
    return { ...template, id: new IdMaker(this.#env.random).next(this.#time) };
  }
}

/** Submissions that are validated once, since validation is not measured here. */
function templates(): Submission[] {
  return Array.from({ length: LANES * PRINCIPALS }, (_, at) => {
    const lane = Math.floor(at / PRINCIPALS);
    const request = { type: `lane-${lane}`, agent: `agent-${at % PRINCIPALS}`, payload: BODY };
    const { submission, payloadText } = prepare(request, {}, () => '', MAX_TRIES);
    return withPayload(submission, payloadText, undefined);
  });
}

function claimed(touched: Iterable<JobEntry>): JobEntry {
  const entry = [...touched].find(({ job }) => job.state === 'claimed');
  if (!entry) throw new Error('nothing was claimed');
  return entry;
}

export async function measure({ waiting, parked, overLimit, steps }: Args): Promise<Values> {
  const engine = new BenchEngine(overLimit > 0 ? LIMIT : '');
  engine.fill(waiting);
  engine.park(parked);
  const running = LANES_WITH_BACKEND.map((lane) => ({ lane, entry: engine.addBackend(lane) }));
  engine.overLimit(overLimit);
  const run = (count: number): number[] => {
    const times: number[] = [];
    for (let at = 0; at < count; at++) {
      const slot = running[at % running.length] as (typeof running)[number];
      const { entry, ms } = engine.next(slot.entry, slot.lane);
      slot.entry = entry;
      times.push(ms * 1000);
    }
    return times;
  };
  run(steps);
  const times = run(steps);
  return {
    p50Us: quantile(times, 0.5),
    p90Us: quantile(times, 0.9),
    p99Us: quantile(times, 0.99),
    waiting: engine.waiting,
  };
}

export const bench: Bench = {
  name: 'pick',
  title: 'pick and claim on the engine: 200 lanes, 3 with a backend',
  rounds: 'once',
  async run({ quick }) {
    const rows: Row[] = [];
    const steps = quick ? 10_000 : 30_000;
    for (let round = 0; round < (quick ? 1 : 3); round++) {
      for (const [name, waiting, parked, overLimit] of [
        ['pick 1k', 1000, 0, 0],
        ['pick 1k, after', 1000, 1000, 0],
        ['pick 1M', 1_000_000, 0, 0],
        ['pick 1k, 1 over a limit', 1000, 0, 1],
        ['pick 1M, 999k over a limit', 1000, 0, 999_000],
      ] as const) {
        const flags = ['--max-old-space-size=8192'];
        const args = { waiting, parked, overLimit, steps };
        const values = await inChild({ measure, url: import.meta.url }, args, flags);
        rows.push({ case: name, values });
      }
    }
    return rows;
  },
};
