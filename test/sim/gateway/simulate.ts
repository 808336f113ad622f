/**
 * Simulates brain, gateway and provider: both processes are killed at any instant, their disks lose power, fill up and
 * fail, and messages between them get lost. The provider's bills prove that no job was bought again by itself.
 */
import type { Change } from '../../../src/model/records.ts';
import { isTerminal } from '../../../src/model/states.ts';
import { engineOf } from '../../fakes/engine-of.ts';
import { SimDisk } from '../../fakes/sim-disk.ts';
import { World } from '../../fakes/world.ts';
import { SimBrain } from '../brain.ts';
import { check } from '../check.ts';
import { answer, readChanges } from '../read-changes.ts';
import type { Outcome } from '../simulate.ts';
import { SimGateway, SimSeat } from './gateway.ts';
import { type Bill, type ProviderScript, SimProvider } from './provider.ts';

const FAULTY_MS = 8000;
const SETTLE_MS = 600_000;
const HEALED: ProviderScript = {
  loseRequest: 0,
  loseId: 0,
  cut: 0,
  turnAway: 0,
  fail: 0,
  workMs: [1, 50],
};

type Policy = 'hold' | 'retry';

class GatewaySimulation {
  readonly world: World;
  readonly disk: SimDisk;
  readonly provider: SimProvider;
  readonly gateway: SimGateway;
  readonly brain: SimBrain;
  readonly faults: Record<string, number> = {};
  readonly acked = new Map<string, Policy>();
  /** Tokens for which the operator has ordered another try. */
  readonly ordered = new Set<string>();
  powerCuts = 0;
  #lose: number;
  #clients = 0;

  constructor(seed: number) {
    this.world = new World(seed);
    const { random } = this.world;
    const some = (most: number): number => (random.chance(0.5) ? random.between(0, most) : 0);
    this.disk = new SimDisk(this.world);
    this.provider = new SimProvider(this.world, random.pick(['token', 'id', 'nothing'] as const), {
      loseRequest: some(0.1),
      loseId: some(0.2),
      cut: some(0.3),
      turnAway: some(0.3),
      fail: some(0.2),
      workMs: [1, random.between(20, 400)],
    });
    this.#lose = some(0.2);
    this.gateway = new SimGateway(this.world, new SimDisk(this.world), this.provider);
    this.brain = new SimBrain(this.world, this.disk, (life) => [
      new SimSeat(this.gateway, life, () => this.#lose),
    ]);
  }

  async run(): Promise<void> {
    const { world } = this;
    this.gateway.supervise();
    await world.runUntil(() => this.gateway.registry !== '', 10_000);
    this.brain.supervise();
    const jobs = 5 + world.random.int(20);
    for (let number = 0; number < jobs; number++)
      world.after(world.random.between(0, FAULTY_MS), () => void this.#submit(`job-${number}`));
    this.#planFaults();
    await this.#runChecked(() => false, FAULTY_MS);
    this.#heal();
    const isSettled = await this.#runChecked(() => this.#isSettled(), SETTLE_MS);
    check(isSettled, `everything ends once faults stop; left: ${this.#leftOver()}`);
  }

  async #submit(id: string): Promise<void> {
    const { random } = this.world;
    const policy: Policy = random.chance(0.5) ? 'hold' : 'retry';
    const max_tries = 1 + random.int(4);
    this.#clients++;
    for (let tries = 0; tries < 60; tries++) {
      const answer = this.brain.up
        ?.submit({ job_id: id, type: 'inference', payload: id, on_unknown: policy, max_tries })
        .then(
          () => true,
          () => false,
        );
      const isAcked = await Promise.race([answer, this.world.wait(1000).then(() => false)]);
      if (isAcked) {
        this.acked.set(id, policy);
        break;
      }
      await this.world.wait(random.between(50, 500));
    }
    if (random.chance(0.1)) await this.#cancelLater(id);
    this.#clients--;
  }

  async #cancelLater(id: string): Promise<void> {
    await this.world.wait(this.world.random.between(0, 1000));
    const cancelled = this.brain.up?.cancel(id).catch(() => undefined);
    await Promise.race([cancelled, this.world.wait(1000)]);
  }

  #planFaults(): void {
    const { world, brain, gateway, disk } = this;
    const plan = (name: string, most: number, run: () => void): void => {
      for (let left = world.random.int(most + 1); left > 0; left--) {
        world.after(world.random.between(100, FAULTY_MS), () => {
          this.faults[name] = (this.faults[name] ?? 0) + 1;
          world.note(name);
          run();
        });
      }
    };
    plan('kill-brain', 3, () => brain.kill());
    plan('kill-gateway', 4, () => gateway.kill());
    plan('kill-both', 2, () => {
      brain.kill();
      gateway.kill();
    });
    plan('power-cut', 2, () => {
      this.powerCuts++;
      brain.kill();
      gateway.kill();
      disk.cutPower();
      gateway.disk.cutPower();
    });
    plan('gateway-disk-full', 1, () => {
      gateway.disk.full = true;
      world.after(world.random.between(100, 2000), () => {
        gateway.disk.full = false;
      });
    });
    plan('gateway-failed-sync', 1, () => {
      gateway.disk.failSyncs = 1;
    });
    plan('partition', 2, () => {
      gateway.reachable = false;
      world.after(world.random.between(100, 3000), () => {
        gateway.reachable = true;
      });
    });
  }

  #heal(): void {
    this.gateway.disk.full = false;
    this.gateway.disk.failSyncs = 0;
    this.disk.failSyncs = 0;
    this.gateway.reachable = true;
    this.provider.script = HEALED;
    this.#lose = 0;
    const operate = (): void => {
      void this.#settleUnknown();
      this.world.after(1000, operate);
    };
    operate();
  }

  /** The operator orders another try for what only a person can settle. */
  async #settleUnknown(): Promise<void> {
    const brain = this.brain.up;
    if (!brain || this.provider.running > 0) return;
    for (const entry of engineOf(brain).state.jobs.values()) {
      if (entry.job.state !== 'stale' || !entry.open?.isGone) continue;
      this.ordered.add(entry.token);
      await brain.resolve(entry.ask.id, { as: 'retry' }).catch(() => undefined);
    }
  }

  async #runChecked(done: () => boolean, limitMs: number): Promise<boolean> {
    const end = this.world.now + limitMs;
    while (!done()) {
      if (this.world.now >= end || !(await this.world.step())) return done();
      if (this.brain.refused) throw this.brain.refused;
      const { contradiction } = this.gateway;
      check(contradiction === undefined, contradiction ?? '');
    }
    return true;
  }

  #isSettled(): boolean {
    const state = this.brain.up && engineOf(this.brain.up).state;
    if (!state || this.#clients > 0) return false;
    const { queued, claimed, running, stale } = state.counts;
    return queued + claimed + running + stale === 0 && state.open.size === 0;
  }

  #leftOver(): string {
    const state = this.brain.up && engineOf(this.brain.up).state;
    const jobs = [...(state?.jobs.values() ?? [])].filter(({ job, open }) => !isTerminal(job.state) || open);
    const shown = jobs.slice(0, 3).map(({ job, open }) => JSON.stringify({ job, open }));
    return `${this.#clients} clients; ${jobs.length} jobs ${shown.join(' ')}`;
  }

  async checkEnd(): Promise<void> {
    const brain = this.brain.up;
    check(brain !== undefined, 'the brain runs');
    for (const id of this.acked.keys()) {
      const { state } = await answer(this.world, brain.get(id));
      check(isTerminal(state), `${id} has ended`);
    }
    checkBills(this.provider, this.acked, this.ordered, await readChanges(this.world, this.disk));
  }
}

/**
 * A job is billed again only if the earlier call certainly failed or was ended, if the operator has ordered it, or if
 * `on_unknown: retry` was decided about the earlier attempt, which the log names. It is never billed while one runs.
 */
function checkBills(
  provider: SimProvider,
  acked: ReadonlyMap<string, Policy>,
  ordered: ReadonlySet<string>,
  changes: readonly Change[],
): void {
  const retried = retriedAttempts(changes);
  const byJob = Map.groupBy(provider.bills, ({ prompt }) => prompt);
  for (const [job, bills] of byJob) {
    // Calls that ran, or had succeeded, when the job was billed again: each must have been given up.
    const again = bills.filter((earlier, at) => bills.slice(at + 1).some((later) => !isOver(earlier, later)));
    const allowed =
      (retried.get(job) ?? 0) + [...ordered].filter((token) => token.startsWith(`${job}:`)).length;
    check(
      again.length <= allowed,
      `${job} (${acked.get(job)}) was billed again after ${again.length} calls, of which ${allowed} were given up`,
    );
    if (acked.get(job) === 'hold')
      check(retried.get(job) === undefined, `${job} is held, and was tried again`);
  }
}

/** Whether the earlier call was over, without success, when the later one began. */
const isOver = (earlier: Bill, later: Bill): boolean =>
  earlier.endedAt !== undefined && earlier.endedAt <= later.startedAt && earlier.outcome !== 'succeeded';

/** How many attempts of each job were given up by `on_unknown: retry`, by the log. */
function retriedAttempts(changes: readonly Change[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { kind, id, cause, after } of changes) {
    if (kind !== 'attempt' || after?.state !== 'abandoned') continue;
    if (typeof cause !== 'object' || cause.is !== 'on-unknown' || cause.policy !== 'retry') continue;
    const job = id.slice(0, id.lastIndexOf(':'));
    counts.set(job, (counts.get(job) ?? 0) + 1);
  }
  return counts;
}

export async function simulateGateway(seed: number): Promise<Outcome> {
  const simulation = new GatewaySimulation(seed);
  await simulation.run();
  await simulation.checkEnd();
  const { world, brain, gateway, acked, provider, faults, powerCuts } = simulation;
  return {
    seed,
    events: world.events,
    trace: world.trace,
    crashes: brain.crashes + gateway.crashes,
    powerCuts,
    jobs: acked.size,
    runs: provider.bills.length,
    faults,
  };
}
