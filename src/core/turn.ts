/**
 * One step in the making: collects changes, applying each at once so that later decisions of the same step see
 * it, and the jobs whose effects may have changed.
 */
import type { Change, RecordKind, RecordKinds } from '../model/records.ts';
import type { JobEntry } from './entry.ts';
import type { EngineSettings } from './settings.ts';
import type { State } from './state.ts';

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

  put<K extends RecordKind>(kind: K, id: string, after: RecordKinds[K] | null, cause: string): void {
    const change = { kind, id, after, cause } as Change;
    this.changes.push(change);
    this.state.apply(change, this.now);
    const uid = jobOf(change);
    const entry = uid === undefined ? undefined : this.state.jobs.get(uid);
    if (entry) this.touched.add(entry);
  }
}

/** The job that a change is about, if any. */
function jobOf(change: Change): string | undefined {
  if (change.kind === 'attempt') return change.after?.job;
  return change.kind === 'job' || change.kind === 'ask' ? change.id : undefined;
}
