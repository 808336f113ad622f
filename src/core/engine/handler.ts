/**
 * How the engine handles events: each area is a file with a table of handlers, one per type of event. A new area is such
 * a file and a line in areas.ts.
 */
import { OrchdError } from '../../model/errors.ts';
import { POLICY_ID } from '../../model/policy.ts';
import type { BatchEnds } from '../admission/batch.ts';
import { type EngineSettings, settingsWith } from '../settings.ts';
import { Turn, type TurnContext } from '../turn.ts';
import type { Demand } from '../workers/demand.ts';
import type { WorkerTurn } from '../workers/turn.ts';

export interface EngineContext extends TurnContext {
  /** Those of the configuration, with what operators have set since. */
  settings: EngineSettings;
  readonly configured: EngineSettings;
  readonly demands: Map<string, Demand>;
}

/** A turn with everything that the handlers of any area need. */
export class EngineTurn extends Turn implements WorkerTurn {
  readonly demands: Map<string, Demand>;
  /** The ends of jobs in this turn by batch. */
  readonly batchEnds: BatchEnds = new Map();

  readonly #context: EngineContext;

  constructor(context: EngineContext, now: number) {
    super(context, now);
    this.#context = context;
    this.demands = context.demands;
  }

  /** The settings of the configuration alone. */
  get configured(): EngineSettings {
    return this.#context.configured;
  }

  /** The values of the policy are in force from here on, in this turn too. */
  adoptPolicy(): void {
    const values = this.state.tables.policy.get(POLICY_ID)?.values ?? {};
    this.settings = settingsWith(this.#context.configured, values);
    this.#context.settings = this.settings;
    this.state.pools.changed = true;
  }
}

/** One handler per type of event. Its return value is the reply to the sender of the event. */
export type Handlers<E extends { readonly type: string }> = {
  readonly [T in E['type']]: (turn: EngineTurn, event: Extract<E, { readonly type: T }>) => unknown;
};

type Handler<E, R> = (turn: EngineTurn, event: E) => R;

/** Makes a thrown OrchdError the reply. Any other error is a defect: it passes through, and the engine is discarded. */
export const mayRefuse =
  <E, R>(handle: Handler<E, R>): Handler<E, R | OrchdError> =>
  (turn, event) =>
    orRefusal(() => handle(turn, event));

/** Like mayRefuse, for events that are refused while the disk is full: its reserve is for cancels and outcomes. */
export const needsDiskSpace =
  <E, R>(handle: Handler<E, R>): Handler<E, R | OrchdError> =>
  (turn, event) =>
    turn.state.full ? new OrchdError('STORE_FULL') : orRefusal(() => handle(turn, event));

export function orRefusal<T>(run: () => T): T | OrchdError {
  try {
    return run();
  } catch (error) {
    if (error instanceof OrchdError) return error;
    throw error;
  }
}
