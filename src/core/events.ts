/** What can happen to the engine. Every input from the world is one of these. */
import type { ErrorInfo } from '../model/errors.ts';
import type {
  AskRecord,
  AttemptRecord,
  Body,
  JobRecord,
  LimitSpec,
  ModelRecord,
  Verification,
} from '../model/records.ts';
import type { LeaseOrder, LeaseRequest } from './admission/lease.ts';
import type { BackendInfo } from './queue/fleet.ts';
import type { PoolReport } from './state/pools.ts';
import type { Registration } from './workers/catalog.ts';
import type { PoolOrder } from './workers/operator-commands.ts';

/** A checked request to run a job, before the engine has decided on it. */
export interface Submission extends Omit<AskRecord, 'v' | 'n' | 'createdAt' | 'ancestors'> {
  readonly forceRetry: boolean;
  /** The body is put away. It is not where a repeat was seen: then the job must not be admitted as new. */
  readonly bodyStored: boolean;
  /** What the history knows of this id, where the caller chose it and memory does not. */
  readonly known: EndedJob | undefined;
}

export interface EndedJob {
  readonly ask: AskRecord;
  readonly job: JobRecord;
  readonly attempts?: readonly AttemptRecord[];
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

export type OfferAnswer =
  | { readonly is: 'accepted' }
  | { readonly is: 'busy'; readonly retryAfterMs?: number }
  | { readonly is: 'refused'; readonly error: ErrorInfo }
  | { readonly is: 'unknown' };

/**
 * What an executor says of a token: `absent` is certain, from a memory that reaches back far enough;
 * `forgotten` is not.
 */
export type Finding =
  | { readonly is: 'running' }
  | { readonly is: 'ended'; readonly outcome: Outcome }
  | { readonly is: 'absent' }
  | { readonly is: 'forgotten' };

export type KillAnswer =
  | { readonly is: 'ended'; readonly outcome: Outcome }
  /** It did not run and never will: the executor refuses the token from now on. */
  | { readonly is: 'tombstoned' }
  /** It will not run from now on, but the executor cannot say whether it did. */
  | { readonly is: 'forgotten' }
  /** It runs after all. */
  | { readonly is: 'running' };

export type ResolveAs =
  | { readonly as: 'retry' }
  | { readonly as: 'failed'; readonly message?: string }
  | { readonly as: 'succeeded'; readonly result: Body };

export type EngineEvent =
  | { readonly type: 'open'; readonly owner: string }
  | { readonly type: 'submit'; readonly submissions: readonly Submission[] }
  | { readonly type: 'cancel'; readonly uid: string; readonly by: string }
  | {
      readonly type: 'redrive';
      readonly uid: string;
      readonly by: string;
      readonly known: EndedJob | undefined;
    }
  | { readonly type: 'resolve'; readonly uid: string; readonly by: string; readonly how: ResolveAs }
  | { readonly type: 'offered'; readonly token: string; readonly answer: OfferAnswer }
  | { readonly type: 'found'; readonly token: string; readonly finding: Finding }
  | { readonly type: 'killed'; readonly token: string; readonly answer: KillAnswer }
  | { readonly type: 'outcome'; readonly token: string; readonly outcome: Outcome }
  | { readonly type: 'lost'; readonly token: string }
  /** An attempt has said something. */
  | { readonly type: 'spoke'; readonly token: string }
  | { readonly type: 'register'; readonly model: Registration }
  | { readonly type: 'model-state'; readonly id: string; readonly state: ModelRecord['state'] }
  | { readonly type: 'verified'; readonly id: string; readonly verified: Verification }
  | {
      readonly type: 'budget';
      readonly tenant: string;
      readonly id: string;
      readonly tokenBudget: number | undefined;
    }
  | { readonly type: 'forget-session'; readonly tenant: string; readonly id: string; readonly by: string }
  /** A pool manager is to be asked, and has not answered yet. */
  | { readonly type: 'pool-awaited'; readonly name: string; readonly awaited: boolean }
  | { readonly type: 'pool'; readonly report: PoolReport }
  | { readonly type: 'pool-lost'; readonly id: string }
  | { readonly type: 'start-failed'; readonly worker: string; readonly error: ErrorInfo }
  | { readonly type: 'pool-order'; readonly id: string; readonly order: PoolOrder; readonly by: string }
  | { readonly type: 'evict'; readonly worker: string; readonly by: string; readonly isDead?: boolean }
  | { readonly type: 'limits'; readonly limits: readonly LimitSpec[]; readonly by: string }
  | { readonly type: 'backend'; readonly info: BackendInfo }
  | { readonly type: 'lease'; readonly request: LeaseRequest }
  | ({ readonly type: 'heartbeat' | 'release' } & LeaseOrder)
  | { readonly type: 'reachable'; readonly name: string; readonly up: boolean }
  | { readonly type: 'space'; readonly full: boolean }
  | { readonly type: 'indexed'; readonly uids: readonly { readonly uid: string; readonly seq: number }[] }
  | { readonly type: 'purge'; readonly attemptFloor: number }
  /** Nothing new is started from now on. */
  | { readonly type: 'pause' }
  | { readonly type: 'tick' };
