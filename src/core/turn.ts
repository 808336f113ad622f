/**
 * Steps in the making: collects changes, applying each at once so that later decisions of the same turn see it,
 * the jobs whose effects may have changed, and the ends that other parts of the core want to hear of.
 */
import type { Cause } from '../model/causes.ts';
import type { AttemptRecord, Change, RecordKind, RecordKinds } from '../model/records.ts';
import { isTerminal } from '../model/states.ts';
import type { Fleet } from './queue/fleet.ts';
import type { Queue } from './queue/queue.ts';
import type { EngineSettings } from './settings.ts';
import type { JobEntry } from './state/job-entry.ts';
import type { State } from './state/state.ts';

/** What decisions look at. */
export interface EngineView {
  readonly state: State;
  readonly queue: Queue;
}

export interface TurnContext extends EngineView {
  readonly settings: EngineSettings;
  readonly random: () => number;
}

/**
 * Something is over. Lower parts of the core state it as a fact; the engine hands it on to those above them that
 * keep accounts (sessions, limits, forecasts), so that no folder reaches upwards.
 */
export type EndFact =
  | { readonly is: 'job'; readonly entry: JobEntry }
  | {
      readonly is: 'attempt';
      readonly entry: JobEntry;
      readonly attempt: AttemptRecord;
      /** Tokens to be charged to the session; undefined where nothing is. */
      readonly tokens: number | undefined;
    };

export class Turn implements EngineView {
  readonly now: number;
  readonly state: State;
  readonly queue: Queue;
  readonly settings: EngineSettings;
  readonly changes: Change[] = [];
  /** Jobs that were changed: what is due for them may have changed too. */
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

  /** Returns the job that was changed, if any. */
  put<K extends RecordKind>(
    kind: K,
    id: string,
    after: RecordKinds[K] | null,
    cause: Cause,
  ): JobEntry | undefined {
    const change = { kind, id, after, cause } as Change;
    this.changes.push(change);
    const entry = this.state.apply(change, this.now);
    if (!entry) return undefined;
    this.touched.add(entry);
    if (kind === 'job' && isTerminal(entry.job.state)) this.#ends.push({ is: 'job', entry });
    return entry;
  }

  noteEnd(end: EndFact): void {
    this.#ends.push(end);
  }

  /** The ends since the last call, in order. */
  takeEnds(): readonly EndFact[] {
    if (this.#ends.length === 0) return NO_ENDS;
    const ends = this.#ends;
    this.#ends = [];
    return ends;
  }
}

const NO_ENDS: readonly EndFact[] = [];
