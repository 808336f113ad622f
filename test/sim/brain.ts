/** A brain in the simulated world: boots, can be killed at any instant, boots again. */

import type { Backend } from '../../src/core/ports/backend.ts';
import { POOL_DEFAULTS } from '../../src/core/settings.ts';
import type { Env } from '../../src/kit/env/env.ts';
import { OrchdError } from '../../src/model/errors.ts';
import { Orchestrator, type RuntimeSettings } from '../../src/runtime/orchestrator.ts';
import { InlineBackground } from '../../src/stores/journal/background.ts';
import { MemoryHistory } from '../../src/stores/journal/history/memory.ts';
import { JournalStore } from '../../src/stores/journal/journal.ts';
import type { SimDisk } from '../fakes/sim-disk.ts';
import { SeededRandom, type World } from '../fakes/world.ts';

export const FOLDER = '/data';

const KIB = 1024;
/** Small, so that a short run rolls segments. */
const LIMITS = {
  minSegmentBytes: 16 * KIB,
  maxSegmentBytes: 64 * KIB,
  maxFrameBytes: 8 * KIB,
  maxPendingBytes: 1024 * KIB,
};

export const SETTINGS: RuntimeSettings = {
  engine: {
    devices: [],
    queueCapacity: 200,
    maxWaiting: 1000,
    queueBytes: 10 * 1024 * KIB,
    queuePolicy: 'reject',
    maxPayloadBytes: 64 * KIB,
    batchMaxWaitMs: 5000,
    batchShare: 10,
    maxTries: 3,
    backoff: { baseDelayMs: 50, maxDelayMs: 2000, jitter: 0.5 },
    failureCacheTtlMs: 5000,
    failureCacheSize: 20,
    cancelDeadlineMs: 500,
    busyPauseMs: 50,
    pools: POOL_DEFAULTS,
    limits: [],
    prices: [],
    retryShare: 0.2,
    breaker: { failures: 5, pauseMs: 5000, maxPauseMs: 300_000 },
    sticky: { enabled: true, price: 10 },
  },
  holderLostMs: 500,
  sweepIntervalMs: 250,
  reconcilesAtStart: true,
  // More than any step of the clock: a job that ended while it was wrong looks as old as the step is large.
  historyMs: 1e11,
  usageMs: 1e15,
  sessions: { archiveAfterMs: 86_400_000, keepMs: Number.POSITIVE_INFINITY },
  purgeIntervalMs: 10_000,
  drainMs: 0,
};

interface Life {
  alive: boolean;
  readonly orchestrator: Orchestrator;
}

/** Makes the backends of one life of the brain. What works in its process takes its env, and dies with it. */
export type BackendsOf = (
  life: { readonly alive: boolean },
  env: Env,
  orchestrator: () => Orchestrator,
) => readonly Backend[];

export class SimBrain {
  readonly #world: World;
  readonly #disk: SimDisk;
  readonly #backendsOf: BackendsOf;
  readonly #settings: RuntimeSettings;
  #life: Life | undefined;
  boots = 0;
  crashes = 0;
  /** The next boot is told that the store is a copy; so is every one until one has started. */
  isCopy = false;
  /** Whether it has booted while the wall clock was ahead: nothing tells that from a time in which it was off. */
  bootedWrong = false;
  warnings: string[] = [];
  /** Set when an opening was refused for a reason that no fault of this world explains. */
  refused: Error | undefined;

  constructor(world: World, disk: SimDisk, backendsOf: BackendsOf, settings: RuntimeSettings = SETTINGS) {
    this.#settings = settings;
    this.#world = world;
    this.#disk = disk;
    this.#backendsOf = backendsOf;
  }

  /** The orchestrator, while it is up. */
  get up(): Orchestrator | undefined {
    const life = this.#life;
    return life?.orchestrator.running && !life.orchestrator.failure ? life.orchestrator : undefined;
  }

  /** Alive in any phase, booting included. */
  get alive(): boolean {
    return this.#life?.alive ?? false;
  }

  boot(): void {
    this.boots++;
    this.#noteClock();
    const life = { alive: true } as Life & { orchestrator: Orchestrator };
    const env: Env = {
      clock: this.#world.clock,
      timers: this.#world.timersFor(life),
      random: new SeededRandom(this.#world.random.int(2 ** 31)),
      disk: this.#disk.for(life),
    };
    const store = new JournalStore(env, {
      folder: FOLDER,
      checkpointIntervalMs: 1e9,
      historyMs: 1e12,
      auditMs: 1e12,
      auditBytes: 1e12,
      limits: LIMITS,
      background: (paths) => new InlineBackground(env.disk, paths, new MemoryHistory()),
      onWarning: (message) => this.warnings.push(message),
    });
    const backends = this.#backendsOf(life, env, () => life.orchestrator);
    const { isCopy } = this;
    life.orchestrator = new Orchestrator({ env, store, backends, settings: this.#settings, isCopy });
    this.#life = life;
    this.#world.note(`boot ${this.boots}`);
    life.orchestrator.start().then(
      () => {
        // The clock may have been set while it opened its store.
        if (life.alive) this.#noteClock();
        if (life.alive && isCopy) this.isCopy = false;
      },
      (error: Error) => {
        if (life.alive) this.#bootFailed(error);
      },
    );
  }

  #noteClock(): void {
    this.bootedWrong ||= this.#world.clock.now() > this.#world.trueTime;
  }

  #bootFailed(error: Error): void {
    const code = error instanceof OrchdError ? error.code : 'INTERNAL';
    const isFault = code === 'STORE_FULL' || code === 'STORE_FAILED' || code === 'SHUTTING_DOWN';
    if (!isFault) this.refused = error;
    this.kill();
  }

  /** kill -9: what it had under way outside goes on, nothing of it runs any more. */
  kill(): void {
    if (!this.#life) return;
    this.crashes++;
    this.#world.note('kill');
    this.#life.alive = false;
    this.#life = undefined;
  }

  /** Boots again whatever happens, as a service manager would. */
  supervise(): void {
    const look = (): void => {
      const failed = this.#life?.orchestrator.failure;
      if (failed) this.kill();
      if (!this.#life) this.boot();
      this.#world.after(this.#world.random.between(50, 400), look);
    };
    look();
  }
}
