/**
 * The engine: step(event, now) decides, applies its changes at once and returns them.
 *
 * E1  No I/O and no waiting: a step is a synchronous function of state, event and instant.
 * E2  Nothing of a step may be visible or take effect outside before its changes are durable; runtime/ ensures that.
 * E3  An engine whose changes could not be made durable is discarded, never rolled back.
 * E4  A step that refuses leaves no change behind, but for the note of a broken rule of governance.
 */
import type { Change } from '../../model/records.ts';
import { countEnds } from '../admission/batch.ts';
import { updateGates } from '../admission/gates.ts';
import { hasTreesToStop, stopTrees } from '../admission/governed.ts';
import { storeSpent } from '../admission/spent.ts';
import { settleWaiters } from '../attempts/dependencies.ts';
import { settlePauses } from '../attempts/pausing.ts';
import { Queue } from '../queue/queue.ts';
import { holderOf } from '../scheduling/affinity.ts';
import { schedule } from '../scheduling/schedule.ts';
import type { EngineSettings } from '../settings.ts';
import type { JobEntry } from '../state/job-entry.ts';
import { State } from '../state/state.ts';
import type { EngineView } from '../turn.ts';
import { keepWorkerPools } from '../workers/keep-pools.ts';
import { plan } from '../workers/plan.ts';
import { type EngineEvent, handle, type Reply } from './areas.ts';
import { processEnds } from './ends.ts';
import { type EngineContext, EngineTurn } from './handler.ts';

export interface Steps {
  readonly changes: readonly Change[];
  /** Jobs whose due effect may have changed. */
  readonly touched: Iterable<JobEntry>;
  /** One reply per event, in the same order. */
  readonly replies: readonly Reply[];
}

export interface Step extends Omit<Steps, 'replies'> {
  readonly reply: Reply;
}

export interface EngineParts {
  readonly settings: EngineSettings;
  readonly random: () => number;
}

/** Backends that come together are known before jobs are placed: a conversation then finds the one that has heard it. */
const isBackendNews = (event: EngineEvent | undefined): boolean =>
  event?.type === 'backend' || event?.type === 'backend-free';

/** The next instant at which a lease ends, or a consumer falls silent. */
const nextLapse = ({ leases, consumers }: State): number =>
  Math.min(leases.nextExpiry(), consumers.nextExpiry());

export class Engine implements EngineView {
  readonly state: State;
  readonly queue: Queue;
  readonly #context: EngineContext;

  constructor(parts: EngineParts) {
    const { retryShare, sticky } = parts.settings;
    this.queue = new Queue(retryShare, (entry, now) => holderOf(this, sticky, entry, now));
    this.state = new State(parts.settings, this.queue);
    this.#context = {
      ...parts,
      configured: parts.settings,
      state: this.state,
      queue: this.queue,
      demands: new Map(),
    };
  }

  /** Those of the configuration, with what operators have set since. */
  get settings(): EngineSettings {
    return this.#context.settings;
  }

  /** Those of the configuration alone. */
  get configured(): EngineSettings {
    return this.#context.configured;
  }

  /** Handles one event. */
  step(event: EngineEvent, now: number): Step {
    const { changes, touched, replies } = this.steps([event], now);
    return { changes, touched, reply: replies[0] };
  }

  /** Handles several events at the same instant, one after the other, and collects their changes. */
  steps(events: readonly EngineEvent[], now: number): Steps {
    const turn = new EngineTurn(this.#context, now);
    const replies: Reply[] = [];
    for (const [at, event] of events.entries()) {
      replies.push(handle(turn, event));
      processEnds(turn);
      if (this.state.pauses.isUnsettled) settlePauses(turn);
      updateGates(turn);
      if (!isBackendNews(event) || !isBackendNews(events[at + 1])) schedule(turn);
    }
    stopTrees(turn);
    updateGates(turn);
    keepWorkerPools(turn);
    plan(turn);
    processEnds(turn);
    if (this.state.waiters.isUnsettled) {
      settleWaiters(turn);
      processEnds(turn);
      schedule(turn);
      processEnds(turn);
    }
    countEnds(turn, turn.batchEnds);
    storeSpent(turn);
    return { changes: turn.changes, touched: turn.touched, replies };
  }

  /** The next instant at which a tick would change something. */
  nextWake(): number {
    const timer = this.state.timers.peek()?.wakeAt ?? Number.POSITIVE_INFINITY;
    const { queue, state } = this;
    if (state.waiters.isUnsettled || state.pauses.isUnsettled || queue.isUnfinished) return 0;
    if (hasTreesToStop(state)) return 0;
    return Math.min(timer, queue.fleet.nextUnblock(), queue.nextRelease(), nextLapse(state));
  }
}
