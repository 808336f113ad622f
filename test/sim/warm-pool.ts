/**
 * Workers of several models on little memory, as events in time: started when somebody waits, stopped when idle,
 * and with pre-warming also started and kept by what the real demand functions say.
 */
import { Demand } from '../../src/core/scheduling/demand.ts';
import { wantedWorkers } from '../../src/core/scheduling/prewarm.ts';
import { MONDAY, type Model, type Request } from './day-trace.ts';

export interface PoolOptions {
  readonly prewarm: boolean;
  readonly vramGb: number;
  readonly startMs: number;
  readonly idleMs: number;
  readonly checkEveryMs: number;
  /** What comes before is for learning and not counted. */
  readonly countFrom: number;
}

export interface PoolReport {
  requests: number;
  /** Requests that found no ready worker of their model. */
  coldMet: number;
  /** Requests that found ready workers, but no free slot. */
  queued: number;
  /** Workers that were started although nobody waited. */
  early: number;
  /** Gigabytes times seconds of workers that had nothing to do. */
  idleGbSeconds: number;
  /** Most workers of each model at once, and fewest after the learning. */
  readonly most: Map<string, number>;
  readonly fewest: Map<string, number>;
}

interface Worker {
  readonly model: Model;
  ready: boolean;
  readyAt: number;
  active: number;
  idleSince: number;
}

interface Line {
  readonly demand: Demand;
  readonly waiting: Request[];
  wanted: number;
}

interface Event {
  readonly at: number;
  readonly run: () => void;
}

export class WarmPool {
  readonly report: PoolReport = {
    requests: 0,
    coldMet: 0,
    queued: 0,
    early: 0,
    idleGbSeconds: 0,
    most: new Map(),
    fewest: new Map(),
  };
  readonly #options: PoolOptions;
  readonly #lines: Map<Model, Line>;
  readonly #workers = new Set<Worker>();
  /** Ends and starts to come, soonest first. */
  readonly #events: Event[] = [];
  #now = MONDAY;

  constructor(models: readonly Model[], options: PoolOptions) {
    this.#options = options;
    this.#lines = new Map(models.map((model) => [model, { demand: new Demand(), waiting: [], wanted: 0 }]));
  }

  run(requests: readonly Request[]): PoolReport {
    const { checkEveryMs } = this.#options;
    let checkAt = this.#now + checkEveryMs;
    for (const request of requests) {
      for (; checkAt <= request.at; checkAt += checkEveryMs) {
        this.#passTo(checkAt);
        this.#check();
      }
      this.#passTo(request.at);
      this.#arrive(request);
    }
    for (const worker of this.#workers) if (worker.ready && worker.active === 0) this.#countIdle(worker);
    return this.report;
  }

  #passTo(at: number): void {
    while (this.#events.length > 0 && this.#events[0]!.at <= at) {
      const event = this.#events.shift()!;
      this.#now = event.at;
      event.run();
    }
    this.#now = at;
  }

  #later(ms: number, run: () => void): void {
    const event = { at: this.#now + ms, run };
    let place = this.#events.length;
    while (place > 0 && this.#events[place - 1]!.at > event.at) place--;
    this.#events.splice(place, 0, event);
  }

  #arrive(request: Request): void {
    const { model } = request;
    const line = this.#lines.get(model)!;
    line.demand.arrived(this.#now);
    line.waiting.push(request);
    const own = this.#of(model);
    if (this.#now >= this.#options.countFrom) this.#countArrival(own.filter(({ ready }) => ready));
    this.#serve(model);
    const spare = own.filter(({ ready }) => !ready).length * model.slots;
    // One more for those who would have to wait for a second turn; the first one at once.
    const patient = own.length === 0 ? 0 : model.slots;
    if (line.waiting.length > spare + patient) this.#start(model, true);
  }

  #countArrival(ready: readonly Worker[]): void {
    this.report.requests++;
    if (ready.length === 0) this.report.coldMet++;
    else if (ready.every(({ model, active }) => active === model.slots)) this.report.queued++;
  }

  #of(model: Model): Worker[] {
    return [...this.#workers].filter((worker) => worker.model === model);
  }

  /** Gives waiting requests to ready workers. */
  #serve(model: Model): void {
    const line = this.#lines.get(model)!;
    for (const worker of this.#of(model)) {
      while (worker.ready && worker.active < model.slots && line.waiting.length > 0) {
        const request = line.waiting.shift()!;
        if (worker.active++ === 0) this.#countIdle(worker);
        this.#later(request.runsMs, () => {
          line.demand.served(request.runsMs);
          if (--worker.active === 0) worker.idleSince = this.#now;
          this.#serve(model);
        });
      }
    }
    // A line that found no memory gets it when a worker of another model has become idle.
    for (const [other, { waiting }] of this.#lines) {
      if (waiting.length > 0 && this.#of(other).length === 0) this.#start(other, true);
    }
  }

  #countIdle(worker: Worker): void {
    const { countFrom } = this.#options;
    const from = Math.max(worker.idleSince, countFrom);
    if (this.#now > from) this.report.idleGbSeconds += (worker.model.vramGb * (this.#now - from)) / 1000;
  }

  /** Somebody who waits may displace any idle worker; a start ahead of demand only one that nobody expects. */
  #start(model: Model, waitedFor: boolean): boolean {
    if (!this.#makeRoom(model, waitedFor)) return false;
    const { startMs, countFrom } = this.#options;
    const worker: Worker = { model, ready: false, readyAt: this.#now + startMs, active: 0, idleSince: 0 };
    this.#workers.add(worker);
    if (!waitedFor && this.#now >= countFrom) this.report.early++;
    this.#later(startMs, () => {
      worker.ready = true;
      worker.idleSince = this.#now;
      this.#serve(model);
    });
    return true;
  }

  #makeRoom(model: Model, waitedFor: boolean): boolean {
    const { vramGb } = this.#options;
    let used = 0;
    for (const worker of this.#workers) used += worker.model.vramGb;
    const idle = [...this.#workers]
      .filter((worker) => worker.ready && worker.active === 0 && (waitedFor || this.#isSurplus(worker)))
      .filter((worker) => worker.model !== model)
      .sort((a, b) => Number(this.#isSurplus(b)) - Number(this.#isSurplus(a)) || a.idleSince - b.idleSince);
    const free = vramGb - used + idle.reduce((sum, worker) => sum + worker.model.vramGb, 0);
    if (free < model.vramGb) return false;
    while (vramGb - used < model.vramGb) {
      const worker = idle.shift()!;
      used -= worker.model.vramGb;
      this.#stop(worker);
    }
    return true;
  }

  #isSurplus({ model }: Worker): boolean {
    return this.#of(model).length > this.#lines.get(model)!.wanted;
  }

  #stop(worker: Worker): void {
    this.#countIdle(worker);
    this.#workers.delete(worker);
  }

  /** What happens from time to time: sizes, idle workers, counts. */
  #check(): void {
    for (const [model, line] of this.#lines) {
      if (this.#options.prewarm) this.#resize(model, line);
      for (const worker of this.#of(model)) {
        const isIdle = worker.ready && worker.active === 0;
        if (isIdle && this.#now - worker.idleSince >= this.#options.idleMs && this.#isSurplus(worker))
          this.#stop(worker);
      }
      if (this.#now < this.#options.countFrom) continue;
      const count = this.#of(model).length;
      this.report.most.set(model.name, Math.max(count, this.report.most.get(model.name) ?? 0));
      this.report.fewest.set(model.name, Math.min(count, this.report.fewest.get(model.name) ?? count));
    }
  }

  #resize(model: Model, line: Line): void {
    const own = this.#of(model);
    const busy = own.some(({ ready, active }) => !ready || active > 0);
    const idleSince = busy ? undefined : Math.max(...own.map((worker) => worker.idleSince));
    line.wanted = wantedWorkers(
      {
        demand: line.demand,
        slotsPerWorker: model.slots,
        startMs: this.#options.startMs,
        idleMs: this.#options.idleMs,
        targetUtilisation: 0.7,
        min: 0,
        max: 4,
        current: own.length,
        idleSince,
      },
      this.#now,
    ).workers;
    for (let count = own.length; count < line.wanted; count++) if (!this.#start(model, false)) return;
  }
}
