/**
 * One turn of the engine: the changes that its events make. Each change is applied to the state at once, so that later
 * decisions of the same turn see it. A turn also collects the jobs whose due effects may have changed, and the jobs and
 * attempts that have ended.
 */
import type { Cause } from '../model/causes.ts';
import type { Violation } from '../model/governance.ts';
import type { AttemptRecord, Change, JobRecord, RecordKind, RecordKinds } from '../model/records.ts';
import { isOpen, isTerminal } from '../model/states.ts';
import type { HeardThread, SaidMessages } from './ports/backend.ts';
import type { NewJob } from './ports/new-job.ts';
import type { Fleet } from './queue/fleet.ts';
import type { Queue } from './queue/queue.ts';
import type { EngineSettings } from './settings.ts';
import type { JobEntry } from './state/job-entry.ts';
import { attemptLeaseId } from './state/leases.ts';
import type { State } from './state/state.ts';

/** What decisions read: the records and the queue. */
export interface EngineView {
  readonly state: State;
  readonly queue: Queue;
}

export interface TurnContext extends EngineView {
  readonly settings: EngineSettings;
  readonly random: () => number;
}

/**
 * A job or an attempt has ended. Lower folders of the core only add the fact to the turn; the engine passes it on to the
 * folders above them (sessions, limits, forecasts), so that no folder imports one above it.
 */
export type EndFact =
  | { readonly is: 'job'; readonly entry: JobEntry }
  /** A job waits for these jobs, which are to be admitted in the same turn. */
  | { readonly is: 'waits'; readonly entry: JobEntry; readonly children: readonly NewJob[] }
  /** It is not known what the backend has heard of the attempt: its thread of the session is not used any more. */
  | { readonly is: 'thread-lost'; readonly entry: JobEntry; readonly backend: string }
  /** A rule of governance was broken. `root`: the job at the top of the tree in which that was. */
  | { readonly is: 'violation'; readonly violation: Violation; readonly root: string; readonly why: string }
  /** The run of a session has answered. */
  | { readonly is: 'said'; readonly entry: JobEntry; readonly said: SaidMessages }
  | {
      readonly is: 'attempt';
      readonly entry: JobEntry;
      readonly attempt: AttemptRecord;
      /** Tokens to charge to the session; undefined means that the session is left unchanged. */
      readonly tokens: number | undefined;
      /** What the backend has of the session since then: a thread, or a cache of what it was sent. */
      readonly heard?: HeardThread | 'cached' | undefined;
    };

export class Turn implements EngineView {
  readonly now: number;
  readonly state: State;
  readonly queue: Queue;
  /** Replaced within a turn when an operator sets the policy. */
  settings: EngineSettings;
  readonly changes: Change[] = [];
  /** The changed jobs: their due effects may have changed too. */
  readonly touched = new Set<JobEntry>();
  readonly random: () => number;
  #ends: EndFact[] = [];

  constructor(context: TurnContext, now: number) {
    this.now = now;
    this.state = context.state;
    this.queue = context.queue;
    this.settings = context.settings;
    this.random = context.random;
  }

  get fleet(): Fleet {
    return this.queue.fleet;
  }

  get epoch(): number {
    return this.state.brain?.epoch ?? 0;
  }

  /** Adds a change and applies it. Returns the job that it belongs to, if any. */
  put<K extends RecordKind>(
    kind: K,
    id: string,
    after: RecordKinds[K] | null,
    cause: Cause,
  ): JobEntry | undefined {
    if (kind === 'job' && after && isTerminal((after as JobRecord).state))
      return this.#putEnded(id, after as JobRecord, cause);
    const entry = this.#put({ kind, id, after, cause } as Change);
    if (kind === 'attempt' && after && !isOpen((after as AttemptRecord).state)) this.endLeaseOf(id);
    return entry;
  }

  /** The lease that an attempt has on a device ends with it, in the same commit. */
  endLeaseOf(token: string): void {
    const lease = attemptLeaseId(token);
    if (this.state.leases.get(lease)) this.#put({ kind: 'lease', id: lease, after: null, cause: 'released' });
  }

  /** The record of what the job goes on with ends with the job, which has it in its own record if it may be redriven. */
  #putEnded(id: string, job: JobRecord, cause: Cause): JobEntry | undefined {
    const state = this.state.waitStates.get(id)?.text;
    const after = state !== undefined && job.wait ? { ...job, wait: { ...job.wait, state } } : job;
    const entry = this.#put({ kind: 'job', id, after, cause });
    if (state !== undefined) this.#put({ kind: 'wait_state', id, after: null, cause });
    if (entry) this.#ends.push({ is: 'job', entry });
    return entry;
  }

  #put(change: Change): JobEntry | undefined {
    this.changes.push(change);
    if (change.kind === 'lease' && !change.after) this.#leaseEnds(change.id);
    const entry = this.state.apply(change, this.now);
    if (entry) this.touched.add(entry);
    return entry;
  }

  #leaseEnds(id: string): void {
    const lease = this.state.leases.get(id)?.record;
    if (lease) this.state.pools.leaseEnded(lease);
  }

  noteEnd(end: EndFact): void {
    this.#ends.push(end);
  }

  /** Returns and removes the ends added since the last call, in order. */
  takeEnds(): readonly EndFact[] {
    if (this.#ends.length === 0) return NO_ENDS;
    const ends = this.#ends;
    this.#ends = [];
    return ends;
  }
}

const NO_ENDS: readonly EndFact[] = [];
