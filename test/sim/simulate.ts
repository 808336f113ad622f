/** Simulates the world of one seed: its faults, its clients, and the proof that nothing was lost or run twice. */

import type { Engine } from '../../src/core/engine/engine.ts';
import { isTerminal } from '../../src/model/states.ts';
import { engineOf } from '../fakes/engine-of.ts';
import { FakeExecutor, FakeLine, type Script } from '../fakes/executor.ts';
import { doctorProblems } from '../fakes/healthy.ts';
import type { MemoryDisk } from '../fakes/memory-disk.ts';
import { SimDisk } from '../fakes/sim-disk.ts';
import { World } from '../fakes/world.ts';
import { FOLDER, SETTINGS, SimBrain } from './brain.ts';
import { check } from './check.ts';
import { Clients, endOf } from './clients.ts';
import { CONSUMER_POOL, SimConsumer } from './consumers.ts';
import { checkCounts, checkIndexes, checkLedgers, checkNotBefore, replay } from './invariants.ts';
import { checkGates, checkSettled, LIMITS, PRICES } from './money-rules.ts';
import { answer, readChanges } from './read-changes.ts';
import { waitOf } from './waits.ts';

export interface Outcome {
  readonly seed: number;
  readonly events: number;
  readonly trace: number;
  readonly crashes: number;
  readonly powerCuts: number;
  readonly jobs: number;
  readonly runs: number;
  /** Runs of consumers. */
  readonly claimed?: number;
  readonly faults: Readonly<Record<string, number>>;
}

const FAULTY_MS = 12_000;
const SETTLE_MS = 600_000;
const STEPS_MS = [40_000, 200_000, 7_200_000, 20 * 86_400_000];
const KEEPS_FOLDERS_EVERY = 5;
/** One world in this many has limits and prices. */
const LIMITED_EVERY = 2;
/** One world in this many has consumers beside its executors. */
const CONSUMERS_EVERY = 3;
const LIMITED = { ...SETTINGS, engine: { ...SETTINGS.engine, limits: LIMITS, prices: PRICES } };
/** The share of worlds in which a backup is restored. */
const RESTORES = 0.3;
/** Added to the number of a job in its body, when its id is used again. */
const OTHER_BODY = 1000;

class Simulation {
  readonly world: World;
  readonly disk: SimDisk;
  readonly executors: FakeExecutor[];
  readonly consumers: SimConsumer[] = [];
  readonly brain: SimBrain;
  readonly clients: Clients;
  readonly faults: Record<string, number> = {};
  powerCuts = 0;
  #clockWasBelieved = false;
  #restoredAt = Number.NEGATIVE_INFINITY;
  #isRestoring = false;
  /** Folders that kills and power cuts left, for the doctor. It takes as long as the rest, so some worlds keep none. */
  readonly #left: MemoryDisk[] = [];
  readonly #keepsFolders: boolean;
  #lastChecked: unknown;

  constructor(seed: number) {
    this.#keepsFolders = seed % KEEPS_FOLDERS_EVERY === 0;
    this.world = new World(seed);
    this.disk = new SimDisk(this.world);
    const count = 1 + this.world.random.int(3);
    this.executors = Array.from({ length: count }, (_, at) => this.#executor(at));
    this.brain = new SimBrain(
      this.world,
      this.disk,
      (life) => this.executors.map((executor) => new FakeLine(executor, life)),
      seed % LIMITED_EVERY === 0 ? LIMITED : SETTINGS,
    );
    this.clients = new Clients(this.world, this.brain);
    if (seed % CONSUMERS_EVERY !== 0) return;
    const consumers = 1 + this.world.random.int(3);
    for (let at = 0; at < consumers; at++)
      this.consumers.push(new SimConsumer(this.world, this.brain, `consumer-${at}`));
  }

  #executor(at: number): FakeExecutor {
    const { random } = this.world;
    const some = (most: number): number => (random.chance(0.5) ? random.between(0, most) : 0);
    const script: Script = {
      loseRequest: some(0.15),
      loseReply: some(0.15),
      repeatOffer: some(0.2),
      busy: some(0.2),
      refuse: some(0.05),
      hang: some(0.1),
      failRetriably: some(0.3),
      failForGood: some(0.1),
      turnAway: some(0.2),
      ignoreKill: some(0.5),
      loseAck: some(0.5),
      workMs: [1, random.between(20, 800)],
      resultText: (offer) =>
        JSON.stringify({
          ran: offer.token,
          number: bodyOf(offer.payloadText),
          text: 'y'.repeat(random.chance(0.1) ? 5000 : 10),
        }),
      waits: (offer) => waitOf(offer, random),
    };
    const info = { name: `executor-${at}`, slots: 1 + random.int(3), paid: random.chance(0.5) };
    return new FakeExecutor(this.world, info, script);
  }

  async run(): Promise<void> {
    const { random } = this.world;
    this.brain.supervise();
    for (const consumer of this.consumers) consumer.begin();
    const jobs = 10 + random.int(40);
    for (let number = 0; number < jobs; number++) this.clients.plan(random.between(0, FAULTY_MS), number);
    this.#planFaults();
    await this.#runChecked(() => false, FAULTY_MS);
    this.#heal();
    const settled = await this.#runChecked(() => this.#isSettled(), SETTLE_MS);
    check(settled, `everything ends once faults stop; left: ${this.#leftOver()}`);
    await this.#runChecked(() => false, 2000);
  }

  #planFaults(): void {
    const { world } = this;
    const plan = (name: string, most: number, run: () => void): void => {
      for (let left = world.random.int(most + 1); left > 0; left--) {
        world.after(world.random.between(100, FAULTY_MS), () => {
          this.faults[name] = (this.faults[name] ?? 0) + 1;
          world.note(name);
          run();
        });
      }
    };
    plan('kill', 4, () => {
      this.brain.kill();
      if (this.#keepsFolders) this.#left.push(this.disk.copy());
    });
    plan('power-cut', 3, () => {
      this.#cutPower();
      if (this.#keepsFolders) this.#left.push(this.disk.copy());
    });
    plan('disk-full', 1, () => this.#fillDisk());
    plan('failed-sync', 1, () => {
      this.disk.failSyncs = 1;
    });
    plan('checkpoint', 6, () => {
      this.brain.up?.checkpoint().catch(() => undefined);
    });
    plan('forget', 1, () => world.random.pick(this.executors).forget());
    plan('lost-executions', 2, () => world.random.pick(this.executors).loseRunning());
    plan('partition', 2, () => this.#partition());
    plan('clock-step', 2, () => this.#stepClock());
    plan('consumer-stalls', 2, () => this.#someConsumer()?.stall());
    plan('consumer-dies', 2, () => this.#someConsumer()?.die());
    if (this.consumers.length === 0 && world.random.chance(RESTORES))
      plan('restore', 1, () => this.#restoreLater());
  }

  #someConsumer(): SimConsumer | undefined {
    return this.consumers.length > 0 ? this.world.random.pick(this.consumers) : undefined;
  }

  /** Makes a backup of the store, which somebody restores later: executors then know more than the store. */
  #restoreLater(): void {
    const { world, disk, brain, clients } = this;
    const backup = disk.copy();
    const backupAt = world.now;
    this.#isRestoring = true;
    world.after(world.random.between(200, 4000), () => {
      world.note('restored');
      brain.kill();
      disk.restore(backup);
      this.#restoredAt = world.now;
      clients.forgetAfter(backupAt);
      // Some ids come again, with other bodies.
      for (let number = 0; number < 10; number++)
        clients.plan(world.random.between(0, 3000), number, OTHER_BODY + number);
      // It takes somebody a while to say that this is a copy.
      world.after(world.random.chance(0.3) ? 0 : world.random.between(0, 4000), () => {
        brain.kill();
        brain.isCopy = true;
        this.#isRestoring = false;
      });
    });
  }

  /** Sets the wall clock wrong: for some seconds, or for so long that the brain has to believe it. */
  #stepClock(): void {
    const { world } = this;
    const size = world.random.pick(STEPS_MS) * world.random.between(0.5, 1);
    const isShort = world.random.chance(0.6);
    const lastsMs = isShort ? world.random.between(10, 8000) : world.random.between(65_000, 150_000);
    const byMs = world.random.chance(0.5) ? size : -size;
    world.setClockWrong(byMs);
    for (const consumer of this.consumers) consumer.timeJumps(byMs);
    world.after(lastsMs, () => {
      world.setClockWrong(0);
      for (const consumer of this.consumers) consumer.timeJumps(-byMs);
    });
    this.#clockWasBelieved ||= !isShort;
  }

  #cutPower(): void {
    this.powerCuts++;
    this.brain.kill();
    this.disk.cutPower();
  }

  #fillDisk(): void {
    this.disk.full = true;
    this.world.after(this.world.random.between(500, 4000), () => {
      this.disk.full = false;
    });
  }

  #partition(): void {
    const executor = this.world.random.pick(this.executors);
    executor.reachable = false;
    this.world.after(this.world.random.between(100, 3000), () => {
      executor.reachable = true;
    });
  }

  #heal(): void {
    this.disk.full = false;
    this.disk.failSyncs = 0;
    for (const executor of this.executors) {
      executor.reachable = true;
      const { resultText, waits } = executor.script;
      executor.script = { workMs: [1, 50], ...(resultText && { resultText }), ...(waits && { waits }) };
    }
    for (const consumer of this.consumers) consumer.heal();
    const operate = (): void => {
      void this.#settleUnknown();
      this.world.after(1000, operate);
    };
    operate();
  }

  /** The operator settles what only a person can. */
  async #settleUnknown(): Promise<void> {
    const brain = this.brain.up;
    if (!brain) return;
    const owner = engineOf(brain).state.brain?.owner ?? '';
    for (const executor of this.executors) executor.endOthers(owner);
    for (const entry of engineOf(brain).state.jobs.values()) {
      const { open, job } = entry;
      if (job.state === 'stale' && open?.backend === CONSUMER_POOL && this.#isOver(entry.token)) {
        await brain.resolve(entry.ask.id, { as: 'retry' }).catch(() => undefined);
        continue;
      }
      const executor = this.executors.find(({ info }) => info.name === open?.backend);
      // A careful one: as long as the executor can still answer, nobody decides in its place.
      if (job.state !== 'stale' || !open || !executor) continue;
      if (open.registry === executor.info.registry && !executor.cannotTell(owner, entry.token, open.at))
        continue;
      const as = this.world.random.chance(0.5) ? 'retry' : 'failed';
      await brain.resolve(entry.ask.id, { as }).catch(() => undefined);
    }
  }

  /** Nobody runs it any more, and nobody will report it: a person may decide. */
  #isOver(token: string): boolean {
    return this.consumers.every((consumer) => !consumer.isBusyWith(token));
  }

  async #runChecked(done: () => boolean, limitMs: number): Promise<boolean> {
    const end = this.world.now + limitMs;
    while (!done()) {
      if (this.world.now >= end || !(await this.world.step())) return done();
      if (this.brain.refused) throw this.brain.refused;
      this.#checkNow();
    }
    return true;
  }

  get #engine(): Engine | undefined {
    return this.brain.up && engineOf(this.brain.up);
  }

  #checkNow(): void {
    const engine = this.#engine;
    if (!engine) return;
    checkCounts(engine, this.executors, SETTINGS.engine.queueCapacity);
    if (this.#lastChecked === engine.state.seq) return;
    this.#lastChecked = engine.state.seq;
    checkIndexes(engine);
    checkGates(engine);
  }

  #isSettled(): boolean {
    const state = this.#engine?.state;
    if (!state || this.clients.active > 0 || this.#isRestoring) return false;
    const { queued, claimed, running, waiting, stale } = state.counts;
    return queued + claimed + running + waiting + stale === 0 && state.open.size === 0;
  }

  #leftOver(): string {
    const state = this.#engine?.state;
    const jobs = [...(state?.jobs.values() ?? [])].filter(
      (entry) => !isTerminal(entry.job.state) || entry.open,
    );
    const shown = jobs.slice(0, 3).map(({ uid, job, open }) => JSON.stringify({ uid, job, open }));
    return `${this.clients.active} clients; ${jobs.length} jobs ${shown.join(' ')}`;
  }

  /** Everything that was said is still so after one more restart, and the raw log tells the same story. */
  async checkEnd(): Promise<void> {
    this.#cutPower();
    this.#left.push(this.disk.copy());
    for (const disk of this.#left) {
      const problems = await doctorProblems(disk, FOLDER);
      check(problems.length === 0, problems.join('; '));
    }
    await this.world.runUntil(() => this.brain.up !== undefined, 60_000);
    const brain = this.brain.up;
    check(brain !== undefined, 'it starts again');
    const changes = await readChanges(this.world, this.disk);
    const stories = replay(changes);
    checkSettled(engineOf(brain), changes);
    for (const told of this.clients.told.values()) {
      const job = await answer(this.world, brain.get(told.id));
      check(isTerminal(job.state), `${told.id} has ended`);
      const story = stories.get(told.id);
      check(story !== undefined, `${told.id} is in the log`);
      check(
        story.ends === 1 + story.redrives,
        `${told.id} ended ${story.ends} times with ${story.redrives} redrives`,
      );
      check(story.job.state === job.state, `${told.id} is ${job.state}, the log says ${story.job.state}`);
      const body = bodyOf(JSON.stringify(told.request.payload));
      const answered = (job.result as { number?: number } | null)?.number ?? body;
      // A submit with a key is answered with the job that has the key already, whatever its body.
      const isOwn = told.request.key !== undefined || answered === body;
      check(isOwn, `${told.id} was answered with the result of body ${answered}, not ${body}`);
      if (told.ended && story.redrives === told.ended.redrives && told.redrives === told.ended.redrives) {
        check(
          JSON.stringify({ ...endOf(job, told.ended.redrives), at: told.ended.at }) ===
            JSON.stringify(told.ended),
          `${told.id} ended as told`,
        );
      }
    }
    checkLedgers([...this.executors, ...this.consumers], stories, this.#restoredAt);
    if (!this.#clockWasBelieved && !this.brain.bootedWrong)
      checkNotBefore(this.executors, this.clients.told, this.#restoredAt);
  }
}

export async function simulate(seed: number): Promise<Outcome> {
  const simulation = new Simulation(seed);
  await simulation.run();
  await simulation.checkEnd();
  const { world, brain, clients, executors, consumers, faults, powerCuts } = simulation;
  return {
    seed,
    events: world.events,
    trace: world.trace,
    crashes: brain.crashes,
    powerCuts,
    jobs: clients.told.size,
    runs: [...executors, ...consumers].reduce((sum, { ledger }) => sum + ledger.length, 0),
    claimed: consumers.reduce((sum, { ledger }) => sum + ledger.length, 0),
    faults,
  };
}

const bodyOf = (payloadText: string): number => (JSON.parse(payloadText) as { number: number }).number;
