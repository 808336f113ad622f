/** What a caller is told of a job: one shape for library, HTTP and command line. */
import type { JobEntry } from '../core/entry.ts';
import type { JobBundle } from '../core/ports.ts';
import { explain, type WaitReason } from '../core/scheduling/explain.ts';
import { jobPosition, predictStartMs } from '../core/scheduling/predict.ts';
import type { State } from '../core/state.ts';
import type { ErrorInfo } from '../model/errors.ts';
import type { AskRecord, AttemptRecord, JobClass, JobRecord } from '../model/records.ts';
import { isTerminal, type JobState } from '../model/states.ts';

export interface AttemptView {
  readonly attempt: number;
  readonly backend: string;
  readonly state: string;
  readonly outcome?: string;
  readonly error?: ErrorInfo;
  readonly intended_at: number;
  readonly accepted_at?: number;
  readonly ended_at?: number;
}

export interface JobView {
  readonly job_id: string;
  readonly state: JobState;
  readonly type: string;
  readonly priority: JobClass;
  readonly agent: string;
  readonly key?: string;
  readonly session_id?: string;
  readonly model?: string;
  readonly score: number;
  readonly created_at: number;
  readonly started_at?: number;
  readonly ended_at?: number;
  readonly tries: number;
  readonly max_tries: number;
  readonly attempts: readonly AttemptView[];
  readonly cancel_requested?: boolean;
  readonly reason?: string;
  readonly error?: ErrorInfo;
  readonly result?: unknown;
  readonly queue_position?: number;
  readonly predicted_start_ms?: number;
  readonly waiting?: WaitReason;
}

type Mutable<T> = { -readonly [K in keyof T]?: T[K] | undefined };

/** Leaves out what is undefined, so that an absent field is absent. */
function compact<T extends object>(fields: Mutable<T>): T {
  for (const key of Object.keys(fields)) {
    if (fields[key as keyof typeof fields] === undefined) delete fields[key as keyof typeof fields];
  }
  return fields as T;
}

export function viewOf(state: State, entry: JobEntry, now: number): JobView {
  const attempts = entry.open ? [...(entry.past ?? []), entry.open] : (entry.past ?? []);
  return compact<JobView>({
    ...base(entry.ask, entry.rec, attempts),
    queue_position: jobPosition(entry),
    predicted_start_ms: isTerminal(entry.rec.state) ? undefined : predictStartMs(entry, now),
    waiting: explain(state, entry),
  });
}

export function viewOfBundle(bundle: JobBundle): JobView {
  return compact<JobView>(base(bundle.ask, bundle.job, bundle.attempts));
}

function base(ask: AskRecord, job: JobRecord, attempts: readonly AttemptRecord[]): Mutable<JobView> {
  return {
    job_id: ask.id,
    state: job.state,
    type: ask.type,
    priority: ask.class,
    agent: ask.principal,
    key: ask.key,
    session_id: ask.session,
    model: ask.model,
    score: ask.score,
    created_at: ask.createdAt,
    started_at: job.startedAt,
    ended_at: job.endedAt,
    tries: job.tries,
    max_tries: ask.maxTries,
    attempts: attempts.map(attemptView),
    cancel_requested: job.cancel ? true : undefined,
    reason: job.reason,
    error: job.error,
  };
}

function attemptView(attempt: AttemptRecord): AttemptView {
  return compact<AttemptView>({
    attempt: attempt.n,
    backend: attempt.backend,
    state: attempt.state,
    outcome: attempt.outcome,
    error: attempt.error,
    intended_at: attempt.at,
    accepted_at: attempt.acceptedAt,
    ended_at: attempt.endedAt,
  });
}
