/**
 * A machine with a spool on a simulated disk, and processes that work on it one operation at a time. The same steps give
 * the same world.
 */
import { createLogger } from '../../../src/kit/logger.ts';
import type { Host } from '../../../src/kit/process/host.ts';
import type { NamespacedIdentity } from '../../../src/kit/process/identity.ts';
import { makeSpool, type Spool, spoolAt } from '../../../src/spool/spool.ts';
import type { Chance } from '../../fakes/sim-file.ts';
import { SimTree } from '../../fakes/sim-tree.ts';
import { SeededRandom } from '../../fakes/world.ts';
import { Ledger } from './ledger.ts';
import { listingOf, type Machine, type MachineProcess, ROOT, SETTINGS, type Work } from './machine.ts';
import { type Operation, stepDisk } from './step-disk.ts';

const START = Date.UTC(2026, 0, 1);

const MAX_HOPS = 1000;

export interface ProcessOptions {
  /** Another pid namespace: nobody can tell by its pid whether it lives. */
  readonly isForeign?: boolean;
  /** Every nonce that it makes is the same, as that of another process: a planted fault. */
  readonly seed?: number;
}

export class SimProcess implements MachineProcess {
  readonly world: SpoolWorld;
  readonly identity: NamespacedIdentity;
  readonly spool: Spool;
  /** Operations that wait for their turn. */
  readonly waiting: Operation[] = [];
  isAlive = true;
  /** The changes of the disk that it has made. */
  changes = 0;
  isDone = false;
  failure: unknown;

  constructor(world: SpoolWorld, pid: number, { isForeign = false, seed = pid }: ProcessOptions) {
    this.world = world;
    this.identity = {
      pid,
      start: `${pid}00`,
      boot: world.boot,
      namespace: isForeign ? 'pid:[2]' : 'pid:[1]',
    };
    const disk = stepDisk(
      world.tree,
      () => world.now,
      (operation) => void this.waiting.push(operation),
      (to) => world.ledger.onRename(to, pid),
    );
    const logger = createLogger({ write: () => undefined, now: () => world.now });
    const clock = { now: () => world.now, monotonic: () => world.now - START };
    // A process has one transaction under way, which waits for nobody.
    const timers = { after: () => () => undefined, soon: () => undefined };
    const env = { disk, clock, timers, random: new SeededRandom(seed) };
    this.spool = spoolAt({ env, host: this.#host(), logger, folder: ROOT, settings: SETTINGS });
  }

  /** Begins what the process does; it stops before its first operation. */
  async begin(work: Work): Promise<void> {
    this.isDone = false;
    const finish = (): void => {
      this.isDone = true;
    };
    void work(this).then(finish, (error: unknown) => {
      this.failure = error;
      finish();
    });
    await this.#untilItWaits();
  }

  /** Lets one operation happen; false when the process has none. */
  async step(): Promise<boolean> {
    const operation = this.waiting.shift();
    if (!operation) return false;
    if (operation.changes) this.changes++;
    operation.run();
    await this.#untilItWaits();
    return true;
  }

  /** Between two operations of a process there are promises only, and few of them. */
  async #untilItWaits(): Promise<void> {
    for (let hop = 0; hop < MAX_HOPS && this.waiting.length === 0 && !this.isDone; hop++) await undefined;
  }

  /** Lets the process work until it is done, or is about to make the n-th change of the disk. */
  async runUntil(change = Number.POSITIVE_INFINITY): Promise<void> {
    while (!this.isDone) {
      const next = this.waiting[0];
      if (next?.changes && this.changes + 1 >= change) return;
      if (!(await this.step()) && !this.isDone)
        throw new Error('a process waits for something else than the disk');
    }
    if (this.failure !== undefined) throw this.failure;
  }

  async run(work: Work): Promise<void> {
    await this.begin(work);
    await this.runUntil();
  }

  /** SIGKILL. With `isTorn`, the write that it was about to make happens by half. */
  kill({ isTorn = false } = {}): void {
    if (isTorn) this.waiting[0]?.tear?.();
    this.waiting.length = 0;
    this.isAlive = false;
  }

  #host(): Host {
    const { world, identity } = this;
    return {
      hostname: 'machine',
      self: identity,
      bootedAtMs: () => world.bootedAtMs,
      lifeOf(other) {
        if (other.boot !== world.boot) return 'other boot';
        if (other.namespace !== identity.namespace) return 'other namespace';
        return world.lives(other) ? 'alive' : 'dead';
      },
    };
  }
}

export class SpoolWorld implements Machine {
  readonly tree: SimTree;
  readonly ledger = new Ledger();
  boot = 'boot-1';
  bootedAtMs = START - 3_600_000;
  now = START;
  readonly #processes: SimProcess[] = [];

  constructor() {
    this.tree = new SimTree(() => this.now);
  }

  static async make(): Promise<SpoolWorld> {
    const world = new SpoolWorld();
    await world.process().run(({ spool }) => makeSpool(spool));
    return world;
  }

  process(options: ProcessOptions = {}): SimProcess {
    const process = new SimProcess(this, 100 + this.#processes.length, options);
    this.#processes.push(process);
    return process;
  }

  lives({ pid, start }: NamespacedIdentity): boolean {
    return this.#processes.some(
      ({ identity, isAlive }) => identity.pid === pid && identity.start === start && isAlive,
    );
  }

  /** The machine loses its power and is started again. */
  cutPower(chance: Chance): void {
    for (const process of this.#processes) process.kill();
    this.tree.cutPower(chance);
    this.ledger.onPowerCut(this.tree);
    this.now += 10_000;
    this.bootedAtMs = this.now;
    this.boot = `boot-${this.bootedAtMs}`;
    this.now += 1000;
  }

  /** All paths, for messages. */
  listing(): string {
    return listingOf(this.tree);
  }
}

export async function preparedWorld(prepare: readonly Work[]): Promise<SpoolWorld> {
  const world = await SpoolWorld.make();
  for (const work of prepare) {
    const process = world.process();
    await process.begin(work);
    while (process.isAlive && !process.isDone) await process.step();
    if (process.failure !== undefined) throw process.failure;
  }
  return world;
}
