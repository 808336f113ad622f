/** The port to backends: anything that executes jobs. Implementations live outside of core. */

import type { Body } from '../../model/body.ts';
import type { BlobPart } from '../../model/composed.ts';
import type { ErrorInfo } from '../../model/errors.ts';
import type { HeardMessages } from '../../model/heard.ts';
import type { BusyReason, TurnedAwayReason } from '../../model/reasons.ts';
import type { AskRecord, Labels } from '../../model/records.ts';
import type { SessionThread } from '../../model/session-record.ts';
import type { TokenCounts } from '../../model/usage.ts';
import type { RefusedChild, TreeBudget, WaitRecord } from '../../model/waiting.ts';
import type { Commander, Opening } from '../../model/worker-wire.ts';
import type { NewJob } from './new-job.ts';

/** The declaration of a backend. Backends differ by these fields only; the core never tests their names. */
export interface BackendInfo {
  readonly name: string;
  readonly kind: string;
  readonly slots: number;
  /** The job types that it runs; undefined means any but OWN_TYPES of model/run-jobs.ts. */
  readonly types: readonly string[] | undefined;
  /** The models that it has; undefined means that it only runs jobs without a model. */
  readonly models: readonly string[] | undefined;
  readonly labels: Labels;
  /** Whether a second execution would cost money; if so, a job with an unknown outcome is held by default. */
  readonly paid: boolean;
  /**
   * A provider stands behind it, whose failures say something about the next job: failures in a row pause the backend,
   * and retries of jobs that failed there are bounded.
   */
  readonly hasProvider?: boolean | undefined;
  /** Its provider runs requests in batches, and bills them so. */
  readonly isBatched?: boolean | undefined;
  /** Whether running executions and results survive a restart of the brain. */
  readonly keepsResults: boolean;
  /** Nothing that the executor ran goes on after its process has ended: with another registry, no earlier execution runs. */
  readonly endsWithProcess?: boolean | undefined;
  /** Its executions only decide, and do nothing outside: one that is lost is begun again, and uses up no try. */
  readonly isRepeatable?: boolean | undefined;
  /** Nothing is sent to it: consumers ask the brain for its jobs, and the brain alone remembers who holds them. */
  readonly isPulled?: true | undefined;
  /** The identity of the executor's memory: a changed one means that it may have forgotten executions. */
  readonly registry: string;
  /** The longest context in tokens; undefined means unlimited. */
  readonly contextLength?: number | undefined;
  /** The longest context of single models, where it is known; a model that is not in it is limited by its server alone. */
  readonly contextLengths?: ReadonlyMap<string, number> | undefined;
  /**
   * The names in `models` come from another server: a job must name one of them, and a model of the catalog with the
   * same name is another model.
   */
  readonly hasForeignModels?: boolean | undefined;
  /** Models that it had and no longer has, for messages about jobs that name one. */
  readonly formerModels?: readonly string[] | undefined;
  /** The timeout of a try there, for jobs without a `timeout_ms` of their own; undefined: that of the settings. */
  readonly timeoutMs?: number | undefined;
  /** Why it takes no jobs now, for people; undefined while it does. */
  readonly outage?: string | undefined;
  /** The pool and device of a worker; undefined for other backends. */
  readonly home?: { readonly pool: string; readonly device: number } | undefined;
  /** The node that it is at, if its executions survive the brain and cannot be reached from another node. */
  readonly node?: string | undefined;
}

/** The tokens of an execution, as counted by its executor. */
export interface UsedTokens extends TokenCounts {
  /** The time from the first token of the answer to the last. */
  readonly decodeMs: number;
}

/** The tokens of an execution that did not succeed. */
export interface CountedTokens extends TokenCounts {
  /** It was ended before its provider had counted all that it charges for. */
  readonly isPartial?: boolean | undefined;
}

/** The backend's own conversation that an execution was part of, and what the backend has heard in it by now. */
export interface HeardThread extends HeardMessages {
  readonly id: string;
}

export interface OfferedConversation {
  /** A secret of the session. Hashes of what threads have heard begin with it (model/heard.ts), and mean nothing without. */
  readonly seed: string;
  /** What this backend has of the session. */
  readonly thread: SessionThread | undefined;
}

/** How an execution ended, as reported by its backend. */
export type Outcome =
  | ({
      readonly ok: true;
      readonly result: Body;
      readonly usage?: UsedTokens;
      readonly said?: SaidMessages;
      readonly thread?: HeardThread;
    } & Labelled)
  | {
      readonly ok: false;
      readonly error: ErrorInfo;
      readonly retryAfterMs?: number;
      readonly usage?: CountedTokens;
    }
  | { readonly ok: 'cancelled'; readonly usage?: CountedTokens }
  | Waits
  | TurnedAway;

/** The messages of a session after one of its runs has answered; the session had `from` of them when the run began. */
export interface SaidMessages {
  readonly messages: BlobPart;
  readonly from: number;
}

/** A backend may say what an execution has done; see AttemptRecord.label. */
interface Labelled {
  readonly label?: string | undefined;
}

/** The longest label. */
export const MAX_LABEL_CHARS = 200;

/** The execution is over and its work is not: the job waits, and another attempt goes on with `state`. */
export interface Waits extends Labelled {
  readonly ok: 'waits';
  readonly state: Body;
  /** Jobs that are admitted below it, whose end it waits for. */
  readonly children: readonly NewJob[];
  /** The requests for jobs below it that are not valid. */
  readonly refused?: readonly RefusedChild[] | undefined;
  /** `all`: every one of `children` must have ended; `any`: one of them. */
  readonly needs: 'all' | 'any';
  /** The job goes on after this time at the latest. */
  readonly forMs?: number | undefined;
  /** What the job and all jobs below it may use; it holds for jobs that are admitted from now on. */
  readonly budget?: TreeBudget | undefined;
  readonly usage?: CountedTokens | undefined;
}

/** The provider behind the backend has done nothing for the job, and wants no other one for a while. */
export interface TurnedAway {
  readonly ok: 'turned_away';
  readonly why: TurnedAwayReason;
  readonly error: ErrorInfo;
  readonly retryAfterMs?: number;
}

/** An attempt that is offered to a backend. */
export interface Offer {
  readonly token: string;
  readonly owner: string;
  readonly epoch: number;
  readonly ask: AskRecord;
  readonly payloadText: string;
  /** What the job goes on with after a wait. */
  readonly waited?: Waited | undefined;
  /** Of a job whose session may go on in a thread of the backend. */
  readonly conversation?: OfferedConversation | undefined;
  readonly attempt: number;
  /**
   * The registry of the executor when the attempt was recorded. An executor with another registry answers `busy`: the
   * offer may be a late copy of an attempt that was settled after the executor had lost its memory.
   */
  readonly registry: string | undefined;
}

export interface Waited extends Omit<WaitRecord, 'state'> {
  readonly stateText: string;
}

/** Whether an offer is meant for an executor with this registry; an offer without one is meant for any. */
export const isMeantFor = (registry: string, offer: Offer): boolean =>
  offer.registry === undefined || offer.registry === registry;

/** Whether a token was offered with another body: both hashes are known, and differ. */
export const isOtherBody = (known: string | undefined, offered: string | undefined): boolean =>
  known !== undefined && offered !== undefined && known !== offered;

export type OfferReply =
  | { readonly is: 'accepted' }
  | { readonly is: 'busy'; readonly retryAfterMs?: number; readonly why?: BusyReason }
  | { readonly is: 'refused'; readonly error: ErrorInfo }
  /** The token belongs to an execution of another body: the job of another copy of the store. */
  | { readonly is: 'conflict' }
  | { readonly is: 'fenced' };

/** An outcome before it is stored, with its result as JSON text. */
export type ExecutionOutcome =
  | ({
      readonly ok: true;
      readonly resultText: string;
      readonly usage?: UsedTokens;
      readonly thread?: HeardThread;
      /** All messages of the session with those of this run. */
      readonly said?: SessionList;
    } & Labelled)
  | AskedWait
  | Exclude<Outcome, { readonly ok: true } | Waits>;

/** A wait as an executor asks for it: `children` are requests as callers submit them. */
export interface AskedWait extends Omit<Waits, 'state' | 'children' | 'refused'> {
  readonly stateText: string;
  /**
   * Further fields of the state: lists that have all values of the last wait and perhaps more. Only the new values are
   * stored, and jobs below whose payloads begin a field with such a list do not store it again.
   */
  readonly lists?: Readonly<Record<string, readonly unknown[]>>;
  /** The list that begins with the messages of the session. */
  readonly continues?: Omit<SessionList, 'values'>;
  readonly children: readonly unknown[];
  /** No job has ever had the id of one of them, unless the id of the waiting job was used before. */
  readonly newIds?: boolean;
}

/** A list of which the session of the job has stored the first `from` values. */
export interface SessionList {
  /** The name of the list in the state of the job's last wait. */
  readonly name: string;
  readonly values: readonly unknown[];
  readonly from: number;
}

export type ExecutionEnd = { readonly is: 'ended'; readonly outcome: ExecutionOutcome } | UnknownEnd;

export type ExecutionStatus = ({ readonly is: 'running' } | ExecutionEnd) & KnownBody;

/** What the executor knows of the body that it ran. */
interface KnownBody {
  /** `hash` of the ask that was offered, if it had one. */
  readonly hash?: string | undefined;
}

/**
 * The execution has ended, and nothing of it runs any more, but its outcome is not known: its executor died before it
 * recorded one, or has dropped it. `on_unknown` of the job decides.
 */
export interface UnknownEnd {
  readonly is: 'forgotten';
  /** What is known of its end, for people. */
  readonly why?: string | undefined;
}

export interface Inspection {
  readonly registry: string;
  /** The executor remembers every token that it was offered since this instant. */
  readonly rememberedSince: number;
  /** The opening of the brain's store that commanded the executor before the present one, if the executor knows it. */
  readonly openingBefore?: Opening | undefined;
  /** The wall clock of the executor when it answered; without it its clock is taken to agree with ours. */
  readonly executorNow?: number | undefined;
  readonly known: ReadonlyMap<string, ExecutionStatus>;
  /** The owner's other executions that are not acknowledged; undefined where the executor cannot list them. */
  readonly others?: readonly OtherExecution[] | undefined;
}

/** An execution that the executor has and that it was not asked about. */
export interface OtherExecution {
  readonly token: string;
  readonly isRunning: boolean;
}

export type KillReply =
  | (ExecutionEnd & KnownBody)
  /** The order was received; the end of the execution is reported later. */
  | { readonly is: 'stopping' }
  /** Only with `bury`: the execution runs, and was left running. */
  | { readonly is: 'running' }
  /** The token is unknown to the executor, which refuses it from now on. */
  | ({ readonly is: 'tombstoned' } & Pick<
      Inspection,
      'registry' | 'rememberedSince' | 'openingBefore' | 'executorNow'
    >)
  | { readonly is: 'fenced' };

/** `end` kills the execution. `bury` only makes sure that an unknown token never starts; a running one is left alone. */
export type KillHow = 'end' | 'bury';

/** One event of an execution, numbered from 1 by the executor itself. */
export interface ExecutionEvent {
  readonly n: number;
  readonly type: 'started' | 'token' | 'metrics' | 'end' | 'error';
  readonly data: unknown;
  /** The data as the executor serialized it, if available: passed on without serializing it again. */
  readonly text?: string;
}

/** How `follow` ended: the execution has ended, or contact to it was lost. */
export type FollowEnd = ExecutionEnd | { readonly is: 'lost' };

/**
 * Anything that executes jobs. Every call is idempotent by token. A call that throws has had no answer: it may or may
 * not have taken effect.
 */
export interface Backend {
  readonly info: BackendInfo;
  offer(offer: Offer): Promise<OfferReply>;
  inspect(tokens: readonly string[], who: Commander): Promise<Inspection>;
  /** Passes the events after `from` to `on`, then resolves to how it ended; `lost` when the signal was aborted. */
  follow(
    token: string,
    from: number,
    on: (event: ExecutionEvent) => void,
    who: Commander,
    signal?: AbortSignal,
  ): Promise<FollowEnd>;
  /** Ends a known token, unless `how` is `bury`; an unknown token is refused from now on. */
  kill(token: string, who: Commander, how?: KillHow): Promise<KillReply>;
  /** Called after the outcome is durable: the executor may drop the result. */
  ack(token: string, who: Commander): Promise<void>;
  /**
   * Like `ack`, for an execution whose session was deleted: the executor erases what it keeps of the text, in memory at
   * once and on its disk within seconds, and goes on to refuse the token. A backend without it has nothing of an
   * execution once that is acknowledged.
   */
  erase?(token: string, who: Commander): Promise<void>;
  start?(): Promise<void>;
  stop?(): Promise<void>;
}

/** Receives the backends of a source. */
export interface BackendListener {
  /**
   * A backend is present. Called again, with another object, when its declaration has changed (slots, labels,
   * registry): the last call counts.
   */
  present(backend: Backend): void;
  /**
   * A backend is gone, and the fate of its open attempts is unknown: `on_unknown` of each job decides. Held attempts are
   * inspected again if the backend comes back under the same name.
   */
  gone(name: string): void;
  /** A backend that has answered `busy` may take an offer before the time that it named. */
  free(name: string): void;
}

/** Backends that come, go and change their slots: workers of pools, seats of a gateway, consumers of a stream. */
export interface BackendSource {
  start(listener: BackendListener): void;
  stop(): Promise<void>;
  /** The brain has removed a backend and will not call it again. */
  forget(backend: string): void;
}
