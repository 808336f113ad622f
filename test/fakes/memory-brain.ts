/** An orchestrator on the reference store, for tests of what stands around it. */
import type { TestContext } from 'node:test';
import { runtimeSettings } from '../../src/app/settings.ts';
import { loadConfig } from '../../src/config/load.ts';
import type { Backend, BackendSource } from '../../src/core/ports/backend.ts';
import type { Cancel, Timers } from '../../src/kit/env/env.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { Orchestrator } from '../../src/runtime/orchestrator.ts';
import { Medium, MemoryStore } from '../../src/stores/memory/memory.ts';

export interface MemoryBrain {
  readonly orchestrator: Orchestrator;
  /** Everything that is durable. */
  readonly medium: Medium;
  /** Keeps everything from becoming durable until the returned function is called. */
  hold(): () => void;
}

/** The timers of the store alone: what it flushes waits while the gate is closed. */
class FlushGate implements Timers {
  readonly #timers: Timers;
  #held: (() => void)[] | undefined;

  constructor(timers: Timers) {
    this.#timers = timers;
  }

  after(ms: number, run: () => void): Cancel {
    return this.#timers.after(ms, run);
  }

  soon(run: () => void): void {
    if (this.#held) this.#held.push(run);
    else this.#timers.soon(run);
  }

  close(): () => void {
    const held: (() => void)[] = [];
    this.#held = held;
    return () => {
      this.#held = undefined;
      for (const run of held) this.#timers.soon(run);
    };
  }
}

export async function memoryBrain(
  t: TestContext,
  parts: {
    readonly backends?: readonly Backend[];
    readonly sources?: readonly BackendSource[];
    /** Configuration as YAML text. */
    readonly config?: string;
  },
  medium = new Medium(),
): Promise<MemoryBrain> {
  const env = realEnv();
  const settings = {
    ...runtimeSettings(loadConfig({ text: parts.config ?? '' })),
    sweepIntervalMs: 20,
    holderLostMs: 500,
  };
  const gate = new FlushGate(env.timers);
  const store = new MemoryStore(gate, medium);
  const orchestrator = new Orchestrator({ env, store, settings, backends: [], ...parts });
  t.after(() => orchestrator.stop());
  await orchestrator.start();
  return { orchestrator, medium, hold: () => gate.close() };
}
