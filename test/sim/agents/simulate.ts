/**
 * Simulates runs of agents, and other jobs that wait, in the world of one seed: a model on another machine, tools in the
 * process of the brain, people who allow calls and settle those in doubt, and faults.
 */
import { Agents } from '../../../src/agents/agents.ts';
import { runReads } from '../../../src/app/run-reads.ts';
import type { Engine } from '../../../src/core/engine/engine.ts';
import type { Backend } from '../../../src/core/ports/backend.ts';
import type { Env } from '../../../src/kit/env/env.ts';
import { isTerminal } from '../../../src/model/states.ts';
import type { Orchestrator, RuntimeSettings } from '../../../src/runtime/orchestrator.ts';
import { engineOf } from '../../fakes/engine-of.ts';
import { FakeExecutor, FakeLine, type Script } from '../../fakes/executor.ts';
import { doctorProblems } from '../../fakes/healthy.ts';
import { SimDisk } from '../../fakes/sim-disk.ts';
import { World } from '../../fakes/world.ts';
import { FOLDER, SETTINGS, SimBrain } from '../brain.ts';
import { check } from '../check.ts';
import { checkCounts, checkIndexes, replay } from '../invariants.ts';
import { answer, readFrames } from '../read-changes.ts';
import type { Outcome } from '../simulate.ts';
import { checkWakes, checkYields } from '../wait-rules.ts';
import { waitOf } from '../waits.ts';
import { AGENTS, answerOf, type Call, MODEL, toolsOf } from './helper.ts';
import { People } from './people.ts';
import { checkAnswer, checkCalls, jobsIn } from './rules.ts';

const FAULTY_MS = 10_000;
const SETTLE_MS = 600_000;
/** In one world of this many only a few jobs may wait at once. */
const FEW_WAIT_EVERY = 3;
const FEW = 4;

const settingsOf = (seed: number): RuntimeSettings =>
  seed % FEW_WAIT_EVERY === 0 ? { ...SETTINGS, engine: { ...SETTINGS.engine, maxWaiting: FEW } } : SETTINGS;

class AgentSimulation {
  readonly world: World;
  readonly disk: SimDisk;
  readonly brain: SimBrain;
  readonly people: People;
  readonly ledger: Call[] = [];
  readonly faults: Record<string, number> = {};
  powerCuts = 0;
  readonly #executors: readonly FakeExecutor[];
  #toolsRegistry = '';
  #lastChecked: unknown;

  constructor(seed: number) {
    this.world = new World(seed);
    this.disk = new SimDisk(this.world);
    this.#executors = [
      this.#executor({ name: 'model', types: ['inference'], models: [MODEL] }, { resultText: answerOf }),
      this.#executor(
        { name: 'work', types: ['work'] },
        { waits: (offer) => waitOf(offer, this.world.random) },
      ),
    ];
    this.brain = new SimBrain(
      this.world,
      this.disk,
      (life, env, orchestrator) => [
        ...this.#executors.map((executor) => new FakeLine(executor, life)),
        ...this.#agents(env, orchestrator),
      ],
      settingsOf(seed),
    );
    this.people = new People(this.world, this.brain, this.ledger);
  }

  #executor(info: { name: string; types: string[]; models?: string[] }, script: Script): FakeExecutor {
    const { random } = this.world;
    const some = (most: number): number => (random.chance(0.5) ? random.between(0, most) : 0);
    return new FakeExecutor(
      this.world,
      { ...info, slots: 1 + random.int(4), paid: false },
      {
        ...script,
        loseRequest: some(0.1),
        loseReply: some(0.1),
        repeatOffer: some(0.2),
        busy: some(0.2),
        hang: some(0.05),
        failRetriably: some(0.1),
        turnAway: some(0.1),
        loseAck: some(0.5),
        workMs: [1, random.between(20, 400)],
      },
    );
  }

  /** They die with the brain: a call that it had begun was made, and nobody was told. */
  #agents(env: Env, orchestrator: () => Orchestrator): readonly Backend[] {
    const tools = toolsOf(this.world, env.timers, this.ledger, (call) => this.#checkBegin(call));
    const agents = new Agents({ env, logger: undefined, agents: AGENTS, tools });
    const backends = agents.backends(runReads(orchestrator));
    this.#toolsRegistry = backends.find(({ info }) => info.types?.includes('tool'))?.info.registry ?? '';
    return backends;
  }

  /** A call that is known to have ended well is not made again. */
  #checkBegin({ job }: Call): void {
    const entry = this.#engine?.state.jobs.get(job);
    check(entry !== undefined && entry.job.state !== 'succeeded', `${job} is called after it has ended`);
  }

  async run(): Promise<void> {
    const { random } = this.world;
    this.brain.supervise();
    const jobs = 4 + random.int(16);
    for (let number = 1; number <= jobs; number++) this.people.plan(random.between(0, FAULTY_MS), number);
    this.people.begin(() => this.#toolsRegistry);
    this.#planFaults();
    await this.#runChecked(() => false, FAULTY_MS);
    this.#heal();
    const isSettled = await this.#runChecked(() => this.#isSettled(), SETTLE_MS);
    check(isSettled, `everything ends once faults stop; left: ${this.#leftOver()}`);
    await this.#runChecked(() => false, 2000);
  }

  #planFaults(): void {
    const { world, disk, brain } = this;
    const plan = (name: string, most: number, run: () => void): void => {
      for (let left = world.random.int(most + 1); left > 0; left--) {
        world.after(world.random.between(100, FAULTY_MS), () => {
          this.faults[name] = (this.faults[name] ?? 0) + 1;
          world.note(name);
          run();
        });
      }
    };
    plan('kill', 6, () => brain.kill());
    plan('power-cut', 4, () => this.#cutPower());
    plan('disk-full', 1, () => {
      disk.full = true;
      world.after(world.random.between(500, 3000), () => {
        disk.full = false;
      });
    });
    plan('failed-sync', 1, () => {
      disk.failSyncs = 1;
    });
    plan('checkpoint', 6, () => {
      brain.up?.checkpoint().catch(() => undefined);
    });
    plan('forget', 2, () => world.random.pick(this.#executors).forget());
    plan('lost-executions', 2, () => world.random.pick(this.#executors).loseRunning());
    plan('partition', 2, () => {
      const executor = world.random.pick(this.#executors);
      executor.reachable = false;
      world.after(world.random.between(100, 3000), () => {
        executor.reachable = true;
      });
    });
  }

  #cutPower(): void {
    this.powerCuts++;
    this.brain.kill();
    this.disk.cutPower();
  }

  #heal(): void {
    this.disk.full = false;
    this.disk.failSyncs = 0;
    for (const executor of this.#executors) {
      executor.reachable = true;
      const { resultText, waits } = executor.script;
      executor.script = { workMs: [1, 50], ...(resultText && { resultText }), ...(waits && { waits }) };
    }
  }

  async #runChecked(done: () => boolean, limitMs: number): Promise<boolean> {
    const end = this.world.now + limitMs;
    while (!done()) {
      if (this.world.now >= end || !(await this.world.step())) return done();
      const failure = this.brain.refused ?? this.people.failure;
      if (failure) throw failure;
      this.#checkNow();
    }
    return true;
  }

  get #engine(): Engine | undefined {
    return this.brain.up && engineOf(this.brain.up);
  }

  #checkNow(): void {
    const engine = this.#engine;
    if (!engine || this.#lastChecked === engine.state.seq) return;
    this.#lastChecked = engine.state.seq;
    checkCounts(engine, this.#executors, SETTINGS.engine.queueCapacity);
    checkIndexes(engine);
    checkWakes(engine.state, this.world.trueTime);
  }

  #isSettled(): boolean {
    const state = this.#engine?.state;
    if (!state || this.people.active > 0) return false;
    const { queued, claimed, running, waiting, stale } = state.counts;
    return queued + claimed + running + waiting + stale === 0 && state.open.size === 0;
  }

  #leftOver(): string {
    const jobs = [...(this.#engine?.state.jobs.values() ?? [])].filter(
      (entry) => !isTerminal(entry.job.state) || entry.open,
    );
    const shown = jobs.slice(0, 3).map(({ uid, job, open }) => JSON.stringify({ uid, job, open }));
    return `${this.people.active} people; ${jobs.length} jobs ${shown.join(' ')}`;
  }

  /** After one more restart everything is as it was said. */
  async checkEnd(): Promise<number> {
    this.#cutPower();
    const problems = await doctorProblems(this.disk.copy(), FOLDER);
    check(problems.length === 0, problems.join('; '));
    await this.world.runUntil(() => this.brain.up !== undefined, 60_000);
    const brain = this.brain.up;
    check(brain !== undefined, 'it starts again');
    const frames = await readFrames(this.world, this.disk);
    checkYields(frames);
    replay(frames.flat());
    const jobs = jobsIn(frames.flat());
    checkCalls(this.ledger, jobs, this.people);
    let runs = 0;
    for (const asked of this.people.asked.values()) {
      if (!asked.isAcknowledged) continue;
      const view = await answer(this.world, brain.get(asked.id));
      check(isTerminal(view.state), `${asked.id} has ended`);
      if (asked.request.type !== 'agent') continue;
      runs++;
      checkAnswer(asked, view, jobs);
    }
    return runs;
  }
}

/** `runs` of the outcome are those that were acknowledged; `faults` has the decisions and answers of people too. */
export async function simulateAgents(seed: number): Promise<Outcome> {
  const simulation = new AgentSimulation(seed);
  await simulation.run();
  const runs = await simulation.checkEnd();
  const { world, brain, people, faults, powerCuts } = simulation;
  return {
    seed,
    events: world.events,
    trace: world.trace,
    crashes: brain.crashes,
    powerCuts,
    jobs: people.asked.size,
    runs,
    faults: { ...faults, decision: people.decisions, answer: people.answers },
  };
}
