/**
 * How the engine hears of events: each area has a table with one handler per type of event. An area that is added
 * is a file with its table, and a line in areas.ts.
 */
import { OrchdError } from '../../model/errors.ts';
import { Turn, type TurnContext } from '../turn.ts';
import type { Demand } from '../workers/demand.ts';
import type { WorkerTurn } from '../workers/turn.ts';

export interface EngineContext extends TurnContext {
  readonly demands: Map<string, Demand>;
}

/** A turn with everything that any area needs. */
export class EngineTurn extends Turn implements WorkerTurn {
  readonly demands: Map<string, Demand>;

  constructor(context: EngineContext, now: number) {
    super(context, now);
    this.demands = context.demands;
  }
}

/** One handler per type of event. What it returns is the reply to whoever asked. */
export type Handlers<E extends { readonly type: string }> = {
  readonly [T in E['type']]: (turn: EngineTurn, event: Extract<E, { readonly type: T }>) => unknown;
};

type Handler<E, R> = (turn: EngineTurn, event: E) => R;

/** Refusals are answers; anything else that is thrown is a defect and discards the engine. */
export const mayRefuse =
  <E, R>(handle: Handler<E, R>): Handler<E, R | OrchdError> =>
  (turn, event) =>
    orRefusal(() => handle(turn, event));

/** The same for what is refused on a full disk: what is left there is for cancels and outcomes. */
export const needsRoom =
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
