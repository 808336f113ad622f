/**
 * Steps in the making: collects changes, applying each at once so that later decisions of the same turn see it,
 * and the jobs whose effects may have changed.
 */
import type { Cause } from '../model/causes.ts';
import type { Change, RecordKind, RecordKinds } from '../model/records.ts';
import { isTerminal } from '../model/states.ts';
import { settle } from './admission/quota.ts';
import type { EngineSettings } from './settings.ts';
import type { JobEntry } from './state/job-entry.ts';
import type { State } from './state/state.ts';

export interface TurnContext {
  readonly state: State;
  readonly settings: EngineSettings;
  readonly random: () => number;
}

export class Turn {
  readonly now: number;
  readonly state: State;
  readonly settings: EngineSettings;
  readonly changes: Change[] = [];
  /** Jobs that were changed: what is due for them may have changed too. */
  readonly touched = new Set<JobEntry>();
  readonly random: () => number;

  constructor(context: TurnContext, now: number) {
    this.now = now;
    this.state = context.state;
    this.settings = context.settings;
    this.random = context.random;
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
    if (entry) this.touched.add(entry);
    const reservation = entry?.reservation;
    if (reservation && kind === 'job' && isTerminal(entry.job.state)) {
      settle(this, entry, reservation);
    }
    return entry;
  }
}
