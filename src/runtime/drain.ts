/** Drains a brain before it stops. */
import type { Env } from '../kit/env/env.ts';
import { pause } from '../kit/pause.ts';
import { within } from '../kit/within.ts';
import type { BackendDirectory } from './backend-directory.ts';
import type { Loop } from './loop.ts';

const POLL_INTERVAL_MS = 10;

export interface DrainParts {
  readonly env: Env;
  readonly loop: Loop;
  readonly backends: BackendDirectory;
  readonly atMostMs: number;
}

export class Drain {
  readonly #parts: DrainParts;
  #hasBegun = false;
  #drained: Promise<void> | undefined;

  constructor(parts: DrainParts) {
    this.#parts = parts;
  }

  /** The state was recovered, and the loop can commit: before that there is nothing to drain. */
  begin(): void {
    this.#hasBegun = true;
  }

  /**
   * Pauses the start of new work, then waits up to `atMostMs` for work whose result would be lost with this process, or
   * would be out of reach of the next leader. Other executions are left running. Everything else goes on: callers are
   * answered, and what they submit is started by the next brain. A second call waits for the first.
   */
  async run(): Promise<void> {
    if (!this.#hasBegun) return;
    this.#drained ??= this.#run();
    await this.#drained;
  }

  async #run(): Promise<void> {
    const { env, loop, backends, atMostMs } = this.#parts;
    if (loop.failure) return;
    let isOver = false;
    const cancel = env.timers.after(atMostMs, () => {
      isOver = true;
    });
    // Limited, because a full or failed disk makes nothing durable. Nothing is lost: what is not durable was not
    // acknowledged.
    await atMost(env, atMostMs, loop.ask({ type: 'pause' }));
    while (hasWorkToWaitFor(loop, backends) && !isOver && !loop.failure)
      await pause(env.timers, POLL_INTERVAL_MS);
    cancel();
    await atMost(env, isOver ? POLL_INTERVAL_MS : atMostMs, loop.durable(loop.engine.state.seq));
  }
}

/** Waits until the promise settles, but at most `ms`. */
const atMost = (env: Env, ms: number, promise: Promise<unknown>): Promise<unknown> =>
  within(
    env.timers,
    ms,
    promise.catch(() => undefined),
    undefined,
  );

function hasWorkToWaitFor({ engine }: Loop, backends: BackendDirectory): boolean {
  const { fleet } = engine.queue;
  for (const { open } of engine.state.open.values()) {
    const info = open && backends.get(open.backend)?.info;
    // No outcome will arrive for an attempt in state unknown, nor for one at another node: waiting for it is useless.
    if (!info || open?.state === 'unknown' || fleet.isAway(info.name)) continue;
    // A backend with a `node` keeps its results there, where only this node can read them.
    if (!info.keepsResults || info.node !== undefined) return true;
  }
  return false;
}
