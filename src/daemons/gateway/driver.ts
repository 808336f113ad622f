/** The interface between the gateway and one way to call a provider. What a driver can do is data, never its name. */
import type { TurnedAwayReason } from '../../model/reasons.ts';
import type { ExecutionResult } from '../../model/worker-wire.ts';
import type { RunContext } from '../execution/engine.ts';
import type { InferenceRequest } from '../execution/inference-request.ts';

export interface DriverAbilities {
  /**
   * How a call is found again after the gateway has died. `token`: by the tag that it was sent with, also if the provider's
   * answer was never seen. `id`: by the id that the provider gave it. `nothing`: not at all.
   */
  readonly finds: 'token' | 'id' | 'nothing';
  /** How long the provider keeps a result; 0 where it keeps none. */
  readonly keepsMs: number;
  /** How a running call is ended: by an order to the provider, or by closing the connection to it. */
  readonly cancels: 'order' | 'disconnect';
  /** Whether the provider charges for a call that was ended early. */
  readonly billsWhenCut: boolean;
}

/** A call to the provider. */
export interface DriverCall extends RunContext {
  readonly request: InferenceRequest;
  /** The provider's name of the model. */
  readonly model: string;
  /** The longest time of the call, after which its signal is aborted. */
  readonly timeoutMs: number;
  /** Names the attempt at the provider: up to 64 characters of `A-Za-z0-9_-`, sent as `metadata` or `custom_id`. */
  readonly tag: string;
  /**
   * Makes the provider's id of the call durable. A driver awaits it as soon as it knows the id, before it does anything
   * else for the call, and keeps reading the answer only after it.
   */
  keepId(id: string): Promise<void>;
}

/** A call that was begun by an earlier process of the gateway. */
export interface EarlierCall extends Omit<DriverCall, 'request' | 'keepId' | 'timeoutMs'> {
  /** The provider's id, if it became known. */
  readonly id: string | undefined;
  /** The wall clock when the call was begun. */
  readonly begunAt: number;
  keepId(id: string): Promise<void>;
}

/**
 * Both methods throw an OrchdError. Its `turnedAway` is set only if the provider has certainly done nothing and charges
 * nothing. UNKNOWN_OUTCOME: the provider may have done the work, and the answer cannot be had.
 */
export interface Driver {
  readonly abilities: DriverAbilities;
  /** Makes the call. The gateway calls it once for each attempt, and never again after a restart. */
  run(call: DriverCall): Promise<ExecutionResult>;
  /** Finds an earlier call and waits for its end; makes no new one. */
  resume(call: EarlierCall): Promise<ExecutionResult>;
  /**
   * Of a driver that can need a person: calls `onHold` with the reason when it takes no request until that person has
   * acted, and with undefined when it does again. Called once, before the first request.
   */
  watchHold?(onHold: (reason: TurnedAwayReason | undefined) => void): void;
  /** Closes the connections to the provider. */
  close(): void;
}
