/** Anything that executes, as the brain sees it. Implementations live outside of core. */
import type { ErrorInfo } from '../../model/errors.ts';
import type { AskRecord, Body, Labels } from '../../model/records.ts';
import type { Commander } from '../../model/worker-wire.ts';

/** What a backend is, as it declares it: differences between backends are data here, never names. */
export interface BackendInfo {
  readonly name: string;
  readonly kind: string;
  readonly slots: number;
  /** Job types it runs; undefined means any. */
  readonly types: readonly string[] | undefined;
  /** Models it has; undefined means: jobs that name none. */
  readonly models: readonly string[] | undefined;
  readonly labels: Labels;
  /** Whether a second execution would cost money: decides what happens to an unknown outcome by default. */
  readonly paid: boolean;
  readonly keepsResults: boolean;
  /** The identity of the executor's memory: another one means that it may have forgotten. */
  readonly registry: string;
  /** The longest context that it can hold, where it has a bound. */
  readonly contextLength?: number | undefined;
  /** The pool and device of a worker. */
  readonly home?: { readonly pool: string; readonly device: number } | undefined;
  /** The node it is at, where its executions outlive the brain and cannot be reached from another node. */
  readonly node?: string | undefined;
}

/** What an execution took, as its executor counted it. */
export interface UsedTokens {
  readonly prompt: number;
  readonly completion: number;
  /** The time in which the answer was made, without the wait for its beginning. */
  readonly decodeMs: number;
}

/** A backend's own account of how an execution ended. */
export type Outcome =
  | { readonly ok: true; readonly result: Body; readonly usage?: UsedTokens }
  | { readonly ok: false; readonly error: ErrorInfo; readonly retryAfterMs?: number }
  | { readonly ok: 'cancelled' };

/** What is sent with an offer. */
export interface Offer {
  readonly token: string;
  readonly owner: string;
  readonly epoch: number;
  readonly ask: AskRecord;
  readonly payloadText: string;
  readonly attempt: number;
  /**
   * The memory that the intent counted on. An executor with another one turns the offer away as busy: it may be
   * a copy that comes late, of an attempt that was settled while nobody here remembered it.
   */
  readonly registry: string | undefined;
}

/** Whether an offer counts on this memory; one that says nothing of it is taken. */
export const isMeantFor = (registry: string, offer: Offer): boolean =>
  offer.registry === undefined || offer.registry === registry;

export type OfferReply =
  | { readonly is: 'accepted' }
  | { readonly is: 'busy'; readonly retryAfterMs?: number }
  | { readonly is: 'refused'; readonly error: ErrorInfo }
  | { readonly is: 'fenced' };

/** An outcome with its result as text, before it is stored. */
export type ExecutionOutcome =
  | { readonly ok: true; readonly resultText: string; readonly usage?: UsedTokens }
  | Exclude<Outcome, { readonly ok: true }>;

export type ExecutionStatus =
  | { readonly is: 'running' }
  | { readonly is: 'ended'; readonly outcome: ExecutionOutcome }
  /** It has ended, and how is no longer known. */
  | { readonly is: 'forgotten' };

export interface Inspection {
  readonly registry: string;
  /** The executor remembers every token it was offered since then. */
  readonly rememberedSince: number;
  readonly known: ReadonlyMap<string, ExecutionStatus>;
}

export type KillReply =
  | { readonly is: 'ended'; readonly outcome: ExecutionOutcome }
  /** The order has arrived; the end will be seen when it comes. */
  | { readonly is: 'stopping' }
  /** It was only to be buried, and runs: it was left alone. */
  | { readonly is: 'running' }
  /** Not known here; the token is refused from now on. */
  | { readonly is: 'tombstoned'; readonly registry: string; readonly rememberedSince: number }
  | { readonly is: 'fenced' };

/** `bury` is for certainty that it does not run: where it does after all, nothing is to happen to it. */
export type KillHow = 'end' | 'bury';

/** One event of an execution, numbered from 1 by the executor itself. */
export interface ExecutionEvent {
  readonly n: number;
  readonly type: 'started' | 'token' | 'metrics' | 'end' | 'error';
  readonly data: unknown;
  /** The data as its executor wrote it, where that is at hand: it is passed on without being written again. */
  readonly text?: string;
}

/** How following an execution came to its end. */
export type FollowEnd =
  | { readonly is: 'ended'; readonly outcome: ExecutionOutcome }
  | { readonly is: 'lost' };

/**
 * Anything that executes. Every call is idempotent by token; a call that throws means: no answer, anything may
 * have happened.
 */
export interface Backend {
  readonly info: BackendInfo;
  offer(offer: Offer): Promise<OfferReply>;
  inspect(tokens: readonly string[], who: Commander): Promise<Inspection>;
  /** Hands on the events after `from`, then says how it ended; `lost` when the signal asked it to stop. */
  follow(
    token: string,
    from: number,
    on: (event: ExecutionEvent) => void,
    who: Commander,
    signal?: AbortSignal,
  ): Promise<FollowEnd>;
  /** A token that is not known here is refused from now on; one that is known ends, unless it was only to be buried. */
  kill(token: string, who: Commander, how?: KillHow): Promise<KillReply>;
  /** After our commit: the executor may drop the result. */
  ack(token: string, who: Commander): Promise<void>;
  start?(): Promise<void>;
  stop?(): Promise<void>;
}

/** Hears from a source which backends there are. */
export interface BackendListener {
  /**
   * A backend is there. Said again with another object where what it declares has changed (its slots, its labels,
   * its registry): the last word counts.
   */
  present(backend: Backend): void;
  /**
   * A backend is gone, and nobody can say what became of what was open on it: `on_unknown` of each job decides. What
   * is held is asked about again if the backend comes back under its name.
   */
  gone(name: string): void;
}

/** Backends that come, go and change their slots: workers of pools, seats of a gateway, consumers of a stream. */
export interface BackendSource {
  start(listener: BackendListener): void;
  stop(): Promise<void>;
  /** The brain has let go of a backend, and asks nothing of it any more. */
  forget(backend: string): void;
}
