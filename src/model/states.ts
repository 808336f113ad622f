/**
 * The transition tables of jobs, attempts and workers. Every change of state goes through a constructor in moves.ts,
 * which checks these tables; docs/states.md is generated from them.
 */
export const JOB_TRANSITIONS = {
  queued: ['claimed', 'cancelled', 'dead'],
  claimed: ['running', 'queued', 'stale', 'failed', 'cancelled'],
  running: ['succeeded', 'failed', 'queued', 'waiting', 'stale', 'cancelled'],
  waiting: ['queued', 'cancelled', 'dead'],
  stale: ['running', 'succeeded', 'waiting', 'queued', 'failed', 'cancelled', 'dead'],
  failed: ['queued', 'dead', 'cancelled'],
  dead: ['queued'],
  succeeded: [],
  cancelled: [],
} as const satisfies Record<string, readonly string[]>;

export type JobState = keyof typeof JOB_TRANSITIONS;

/** The states of a job that has ended. */
export type EndState = Extract<JobState, 'succeeded' | 'dead' | 'cancelled'>;

export const ATTEMPT_TRANSITIONS = {
  intended: ['accepted', 'ended', 'unknown', 'abandoned'],
  accepted: ['ended', 'unknown'],
  unknown: ['accepted', 'ended', 'abandoned'],
  ended: [],
  abandoned: [],
} as const satisfies Record<string, readonly string[]>;

export type AttemptState = keyof typeof ATTEMPT_TRANSITIONS;

/**
 * The desired states of a worker. A draining or stopping worker never takes jobs again; the record is deleted when the
 * worker is gone.
 */
export const WORKER_TRANSITIONS = {
  starting: ['running', 'draining', 'stopping'],
  running: ['draining', 'stopping'],
  draining: ['stopping'],
  stopping: [],
} as const satisfies Record<string, readonly string[]>;

export type WorkerRecordState = keyof typeof WORKER_TRANSITIONS;

/** The meaning of each job state, for docs/states.md. */
export const JOB_STATE_MEANING: Record<JobState, string> = {
  queued: 'waits: ready in its lane, or parked until a condition is met',
  claimed: 'a backend is chosen and recorded; the job is being offered to it',
  running: 'the backend has accepted the job',
  waiting:
    'has no attempt: it waits for jobs below it, for an instant or for an answer, and goes on in the queue',
  stale: 'the outcome is unknown: the backend is lost or has forgotten the attempt',
  failed: 'a try failed; moves on to queued or dead in the same commit',
  dead: 'dead letter: failed for good, dropped, expired, killed, or a job that it waited for has failed; an operator may redrive it',
  succeeded: 'done; the result is stored',
  cancelled: 'cancelled by request, with its parent, or when its last follower disconnected',
};

export const ATTEMPT_STATE_MEANING: Record<AttemptState, string> = {
  intended: 'recorded before anything is sent; the offer may be under way',
  accepted: 'the backend has accepted the attempt',
  unknown: 'the backend is lost, or cannot tell whether the attempt ran',
  ended: 'the backend confirmed its end',
  abandoned:
    'closed without a confirmed end: it certainly never ran and never will, or `on_unknown` or an operator gave it up',
};

export const WORKER_STATE_MEANING: Record<WorkerRecordState, string> = {
  starting: 'the start was ordered, or will be',
  running: 'its pool has reported it ready; it takes jobs',
  draining: 'takes no new jobs and finishes those it has',
  stopping: 'the stop was ordered, or will be',
};

export const JOB_STATES = Object.keys(JOB_TRANSITIONS) as JobState[];
export const ATTEMPT_STATES = Object.keys(ATTEMPT_TRANSITIONS) as AttemptState[];

const TERMINAL: ReadonlySet<JobState> = new Set(['succeeded', 'cancelled', 'dead']);

/** Whether a job has ended. Only an operator's redrive moves a dead job again. */
export const isTerminal = (state: JobState): boolean => TERMINAL.has(state);

/** Whether an attempt still holds its slot and its reservation. */
export const isOpen = (state: AttemptState): boolean => state !== 'ended' && state !== 'abandoned';

export function mayMoveJob(from: JobState, to: JobState): boolean {
  return (JOB_TRANSITIONS[from] as readonly JobState[]).includes(to);
}

export function mayMoveWorker(from: WorkerRecordState, to: WorkerRecordState): boolean {
  return (WORKER_TRANSITIONS[from] as readonly WorkerRecordState[]).includes(to);
}

export function mayMoveAttempt(from: AttemptState, to: AttemptState): boolean {
  return (ATTEMPT_TRANSITIONS[from] as readonly AttemptState[]).includes(to);
}

/** Whether an attempt uses a slot of its backend: see AttemptRecord.isGone. */
export const usesSlot = (
  attempt: { readonly state: AttemptState; readonly isGone?: boolean | undefined } | undefined,
): boolean => attempt !== undefined && isOpen(attempt.state) && !attempt.isGone;
